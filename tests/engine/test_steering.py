"""Speaking to a turn that is under way: now, at its next step, or after it."""

from __future__ import annotations

from tests.engine.bench import SESSION, WORKSPACE, Answering, Bench

from bullpen.engine.turn import STEERED
from bullpen.errors import ProviderError
from bullpen.providers.base import AssistantTurn, ToolTurn, UserTurn
from bullpen.store import waits


def last_words(step: Answering) -> str:
    last = step.request.turns[-1]
    assert isinstance(last, UserTurn)
    return last.text


async def test_now_breaks_the_answer_off_and_is_heard_at_once(bench: Bench) -> None:
    await bench.prompt("write a novel", run_id="r")
    step = await bench.puppet.next()
    step.say("It was a dark")
    await bench.watcher.until("message", lambda m: m.text == "It was a dark")
    await bench.prompt("make it a poem", run_id="s", timing="now")
    await step.closed.wait()
    step = await bench.puppet.next()
    assert step.request.turns[-2:] == (AssistantTurn("It was a dark"), UserTurn("make it a poem"))
    step.finish("Roses")
    done = await bench.watcher.run_complete("r")
    assert (done.text, done.run_ids, done.cancelled) == ("Roses", ("s",), False)
    assert [row[:2] for row in await bench.rows()] == [
        ("user", "write a novel"),
        ("assistant", "It was a dark"),
        ("user", "make it a poem"),
        ("assistant", "Roses"),
    ]
    assert await bench.states() == {"r": "done", "s": "done"}


async def test_now_before_the_model_has_said_anything(bench: Bench) -> None:
    await bench.prompt("one", run_id="r")
    step = await bench.puppet.next()
    await bench.prompt("two", timing="now")
    await step.closed.wait()
    step = await bench.puppet.next()
    assert step.request.turns == (UserTurn("one"), UserTurn("two"))
    step.finish("both")
    assert (await bench.watcher.run_complete("r")).text == "both"


async def test_now_cuts_the_calls_and_their_asks(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.call("c1", "echo", '{"name": "quick"}')
    step.call("c2", "act", '{"name": "asked"}')
    step.call("c3", "hold", '{"name": "never"}')
    step.finish(reason="tool_use")
    await bench.watcher.until("permission_request")
    await bench.prompt("stop that", timing="now")
    notice = await bench.watcher.until("permission_notification", lambda n: n.denied)
    assert notice.tool_call_id == "c2"
    step = await bench.puppet.next()
    results = {t.result.tool_call_id: t.result.content for t in step.request.turns if isinstance(t, ToolTurn)}
    assert results == {"c1": "quick", "c2": STEERED.content, "c3": STEERED.content}
    assert last_words(step) == "stop that"
    step.finish("stopped")
    assert (await bench.watcher.run_complete("r")).text == "stopped"
    assert bench.gate.effects == []


async def test_now_stops_a_running_tool_and_its_sub_agents(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.call("c1", "send", '{"prompt": "look"}')
    step.finish(reason="tool_use")
    child = await bench.puppet.next()
    child.say("looking")
    await bench.prompt("forget it", timing="now")
    await child.closed.wait()
    step = await bench.puppet.next()
    assert last_words(step) == "forget it"
    step.finish("forgotten")
    assert (await bench.watcher.run_complete("r")).text == "forgotten"
    assert await bench.open_messages() == []


async def test_a_step_joins_even_with_a_run_id(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    await bench.prompt("and this", run_id="s", timing="step")
    step.call("c1", "echo", '{"name": "x"}')
    step.finish(reason="tool_use")
    step = await bench.puppet.next()
    assert last_words(step) == "and this"
    step.finish("done")
    assert (await bench.watcher.run_complete("r")).run_ids == ("s",)


async def test_after_waits_for_the_end_of_the_turn(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    later = await bench.prompt("then this", timing="after")
    step.call("c1", "echo", '{"name": "x"}')
    step.finish(reason="tool_use")
    step = await bench.puppet.next()
    assert isinstance(step.request.turns[-1], ToolTurn)
    step.finish("done")
    assert (await bench.watcher.run_complete("r")).run_ids == ()
    step = await bench.puppet.next()
    assert last_words(step) == "then this"
    step.finish("also done")
    assert (await bench.watcher.run_complete(later)).text == "also done"


async def test_now_in_an_idle_session_is_a_prompt_like_any_other(bench: Bench) -> None:
    run_id = await bench.prompt("go", timing="now")
    (await bench.puppet.next()).finish("gone")
    assert (await bench.watcher.run_complete(run_id)).text == "gone"


async def test_now_while_a_turn_waits_for_its_model(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    (await bench.puppet.next()).fail(ProviderError("busy", retryable=True, retry_after_s=50))
    await bench.watcher.until("run_waiting", action="updated")
    await bench.prompt("never mind", timing="now")
    step = await bench.puppet.next()
    assert last_words(step) == "never mind"
    step.finish("fine")
    assert (await bench.watcher.run_complete("r")).text == "fine"
    assert not bench.services.waits.end(SESSION)
    assert await bench.read(lambda tx: waits.all_of(tx, WORKSPACE)) == []
    # What was refused is not paid for.
    assert len(await bench.sql("SELECT 1 FROM ledger")) == 1


async def test_now_goes_before_what_waits_for_a_turn_of_its_own(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    await bench.puppet.next()
    await bench.prompt("then this", run_id="later", timing="after")
    await bench.prompt("stop", timing="now")
    step = await bench.puppet.next()
    assert last_words(step) == "stop"
    step.finish("stopped")
    assert (await bench.watcher.run_complete("r")).text == "stopped"
    (await bench.puppet.next()).finish("also")
    assert (await bench.watcher.run_complete("later")).text == "also"


async def test_the_same_now_again_breaks_nothing_off(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    await bench.puppet.next()
    await bench.prompt("stop", timing="now", idempotency_key="k")
    step = await bench.puppet.next()
    await bench.prompt("stop", timing="now", idempotency_key="k")
    assert not step.closed.is_set()
    step.finish("stopped")
    assert (await bench.watcher.run_complete("r")).text == "stopped"


async def test_now_during_a_summary_is_heard_right_after_it(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    (await bench.puppet.next()).fail(ProviderError("too long", kind="overflow"))
    summary = await bench.puppet.next()
    assert summary.request.purpose == "summary"
    await bench.prompt("and this", timing="now")
    summary.finish("short")
    step = await bench.puppet.next()
    assert last_words(step) == "and this"
    step.finish("done")
    assert (await bench.watcher.run_complete("r")).text == "done"
    assert await bench.open_messages() == []
