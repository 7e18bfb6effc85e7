"""A turn: steps, calls, results, retries, loops, sub-agents."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.engine.bench import SESSION, Answering, Bench, answer_to, settings_of
from tests.engine.timeloop import TimeLoop, advance, pass_until

from bullpen.config.settings import ProviderSettings
from bullpen.engine.retry import RETRY_LONGEST_S, TRIES
from bullpen.errors import ProviderError
from bullpen.providers.base import AssistantTurn, ToolTurn, Usage, UserTurn
from bullpen.schema.agent import Model
from bullpen.schema.api import QuestionAnswer
from bullpen.schema.asks import QuestionResponse


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return ("asyncio", {"loop_factory": TimeLoop})


async def begun(bench: Bench, **more: Any) -> Answering:
    await bench.prompt("hello", run_id="r1", **more)
    return await bench.puppet.next()


async def results(bench: Bench, session: str = SESSION) -> list[tuple[str, str, bool]]:
    return [
        (r.tool_call_id, r.content, r.is_error) for m in await bench.messages(session) for r in m.tool_results
    ]


# Steps and calls


async def test_a_model_that_knows_no_tools_is_offered_none(bench: Bench) -> None:
    """A local server would refuse the whole request."""
    model = Model(id="puppet-1", supports_tools=False)
    providers = {"puppet": ProviderSettings(id="puppet", type="puppet", models=(model,))}
    bench.agent.settings = settings_of(providers=providers)
    step = await begun(bench)
    assert step.request.tools == ()
    step.finish("just words")
    assert (await bench.watcher.run_complete("r1")).text == "just words"


async def test_a_call_and_its_result_go_back_to_the_model(bench: Bench) -> None:
    step = await begun(bench)
    step.say("let me see")
    step.call("c1", "echo", '{"name":"x"}')
    step.finish(reason="tool_use", usage=Usage(input=10, output=2))
    step = await bench.puppet.next()
    spoken, result = step.request.turns[1:]
    assert isinstance(spoken, AssistantTurn)
    assert isinstance(result, ToolTurn)
    assert (spoken.text, [c.name for c in spoken.tool_calls]) == ("let me see", ["echo"])
    assert (result.result.tool_call_id, result.result.content) == ("c1", "x")
    step.finish("it is x", usage=Usage(input=20, output=4))
    assert (await bench.watcher.run_complete("r1")).text == "it is x"
    assert [row[0::4] for row in await bench.rows()] == [
        ("user", "stop"),
        ("assistant", "tool_use"),
        ("tool", "stop"),
        ("assistant", "end_turn"),
    ]
    found = (await bench.sql("SELECT prompt_tokens, completion_tokens, cost FROM sessions"))[0]
    assert found == (20, 4, pytest.approx((30 * 1.0 + 6 * 2.0) / 1e6))


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("nothing", "{}", "There is no tool"),
        ("echo", "not json", "not a JSON object"),
        ("echo", "[1]", "not a JSON object"),
        ("echo", '{"name":[]}', "arguments of echo are not right"),
        ("fail", '{"name":"way"}', "no way"),
        ("burst", '{"name":"odd"}', "failed unexpectedly: odd"),
        ("lose_itself", "{}", "broke off by itself"),
    ],
)
async def test_what_goes_wrong_in_a_tool_is_a_result(
    bench: Bench, name: str, arguments: str, expected: str
) -> None:
    step = await begun(bench)
    step.call("c1", name, arguments)
    step.finish(reason="tool_use")
    (await bench.puppet.next()).finish("I see")
    assert (await bench.watcher.run_complete("r1")).text == "I see"
    ((call, content, is_error),) = await results(bench)
    assert (call, is_error) == ("c1", True)
    assert expected in content


async def test_a_call_whose_arguments_never_came_is_not_run_and_the_model_is_told(bench: Bench) -> None:
    """R-22."""
    step = await begun(bench)
    step.begin_call("c1", "act")
    step.finish(reason="max_tokens")
    (await bench.puppet.next()).finish("I will try again")
    assert (await bench.watcher.run_complete("r1")).text == "I will try again"
    assert bench.gate.effects == []
    assert (await bench.rows())[1][2] == [("c1", "{}", True)]
    assert [r[0] for r in await results(bench)] == ["c1"]


async def test_parallel_calls_run_side_by_side_and_are_told_in_the_order_of_the_calls(bench: Bench) -> None:
    step = await begun(bench)
    for n in range(3):
        step.call(f"c{n}", "look", f'{{"name":"{n}"}}')
    step.call("c3", "echo", '{"name":"after"}')
    step.finish(reason="tool_use")
    assert sorted([await bench.gate.entered() for _ in range(3)]) == ["0", "1", "2"]
    for n in (2, 0, 1):
        bench.gate.open(str(n))
        await bench.watcher.until("message", lambda m: bool(m.tool_results))
    step = await bench.puppet.next()
    told = [t.result.tool_call_id for t in step.request.turns if isinstance(t, ToolTurn)]
    assert told == ["c0", "c1", "c2", "c3"]


async def test_calls_behind_one_that_stops_the_turn_are_not_run(bench: Bench) -> None:
    step = await begun(bench)
    step.call("c1", "act", '{"name":"a"}')
    step.call("c2", "act", '{"name":"b"}')
    step.call("c3", "look", '{"name":"c"}')
    step.finish(reason="tool_use")
    request = await bench.watcher.until("permission_request")
    assert await bench.grant(request, "deny")
    done = await bench.watcher.run_complete("r1")
    assert (done.error, done.cancelled, done.text) == ("", False, "")
    assert [(c, e) for c, _, e in await results(bench)] == [("c1", True), ("c2", True), ("c3", True)]
    assert (await results(bench))[0][1] == "User denied permission"
    assert (await bench.rows())[1][4] == "end_turn"
    assert bench.gate.effects == []


async def test_a_refusal_with_a_reason_goes_to_the_model(bench: Bench) -> None:
    step = await begun(bench)
    step.call("c1", "act", '{"name":"a"}')
    step.finish(reason="tool_use")
    request = await bench.watcher.until("permission_request")
    await bench.services.permissions.grant(answer_to(request, "deny", "use b"), "ana")
    (await bench.puppet.next()).finish("then b")
    assert (await bench.watcher.run_complete("r1")).text == "then b"
    assert "use b" in (await results(bench))[0][1]


async def test_a_question_is_answered_or_ends_the_turn(bench: Bench) -> None:
    step = await begun(bench)
    step.call("c1", "wonder", '{"name":"why?"}')
    step.finish(reason="tool_use")
    batch = await bench.watcher.until("question_batch_request")
    response = QuestionResponse(request_id="q1", fill_in_text="because")
    answer = QuestionAnswer(batch_request_id=batch.id, responses=(response,))
    assert await bench.services.questions.answer(answer, "ana")
    assert not await bench.services.questions.answer(answer, "ben")
    step = await bench.puppet.next()
    assert (await results(bench))[0][1] == "because"
    step.call("c2", "wonder", '{"name":"and now?"}')
    step.finish(reason="tool_use")
    batch = await bench.watcher.until("question_batch_request")
    assert await bench.services.questions.cancel("", "ana")
    assert not (await bench.watcher.run_complete("r1")).error
    assert (await results(bench))[1][1] == "User cancelled this question"


async def test_a_model_that_repeats_itself_is_stopped(bench: Bench) -> None:
    step = await begun(bench)
    for n in range(10):
        step.call(f"c{n}", "echo", '{"name":"same"}')
        step.finish(reason="tool_use")
        if n < 9:
            step = await bench.puppet.next()
    done = await bench.watcher.run_complete("r1")
    assert "repeating" in done.error
    assert (await bench.states()) == {"r1": "failed"}
    assert len(await results(bench)) == 10


async def test_an_unusual_end_is_kept(bench: Bench) -> None:
    step = await begun(bench)
    step.finish("cut sho", reason="max_tokens")
    await bench.watcher.run_complete("r1")
    assert (await bench.rows())[1][4] == "max_tokens"


# Retries


async def test_a_broken_stream_is_tried_again_from_nothing(bench: Bench) -> None:
    step = await begun(bench)
    step.think("hm")
    step.stop_thinking()
    step.say("half an ans")
    step.begin_call("c1", "act")
    await bench.watcher.until("message", lambda m: m.tool_calls)
    step.fail(ProviderError("reset", retryable=True))
    cleared = await bench.watcher.until("message", lambda m: m.role == "assistant" and not m.parts)
    assert cleared.finish is None
    await pass_until(lambda: not bench.puppet.asked.empty())
    step = await bench.puppet.next()
    step.finish("a whole answer")
    assert (await bench.watcher.run_complete("r1")).text == "a whole answer"
    message = (await bench.messages())[1]
    assert (message.text, message.reasoning, message.tool_calls) == ("a whole answer", "", [])


async def test_after_the_last_try_the_turn_fails_with_what_was_said(bench: Bench) -> None:
    step = await begun(bench)
    for _ in range(TRIES - 1):
        step.fail(ProviderError("busy", retryable=True, retry_after_s=0))
        step = await bench.puppet.next()
    step.say("almost")
    step.fail(ProviderError("busy", title="Overloaded", retryable=True, retry_after_s=0))
    done = await bench.watcher.run_complete("r1")
    assert (done.error, done.text) == ("busy", "almost")
    finish = (await bench.messages())[1].finish
    assert finish is not None
    assert (finish.reason, finish.message, finish.details) == ("error", "Overloaded", "busy")


async def test_the_hosts_own_waiting_time_is_kept(bench: Bench) -> None:
    step = await begun(bench)
    step.fail(ProviderError("slow down", retryable=True, retry_after_s=30))
    await bench.watcher.until("message", lambda m: m.role == "assistant")
    await step.closed.wait()
    await bench.sql("SELECT 1")
    await advance(29)
    assert bench.puppet.asked.empty()
    await pass_until(lambda: not bench.puppet.asked.empty())


@pytest.mark.parametrize(
    "error",
    [
        ProviderError("bad key", status=401),
        ProviderError("come back tomorrow", retryable=True, retry_after_s=RETRY_LONGEST_S + 1),
    ],
)
async def test_what_waiting_does_not_mend_fails_at_once(bench: Bench, error: ProviderError) -> None:
    (await begun(bench)).fail(error)
    assert (await bench.watcher.run_complete("r1")).error == error.details


async def test_an_answer_that_ends_early_is_an_error_of_the_stream(bench: Bench) -> None:
    """R-21: no end was announced."""
    step = await begun(bench)
    step.fail(StopAsyncIteration())
    assert (await bench.watcher.run_complete("r1")).error


# Sub-agents


async def sent(bench: Bench, count: int = 1) -> list[Answering]:
    step = await begun(bench)
    for n in range(count):
        step.call(f"c{n}", "send", f'{{"prompt":"task {n}"}}')
    step.finish(reason="tool_use")
    return [await bench.puppet.next() for _ in range(count)]


async def test_a_sub_agent_has_its_own_session_and_its_last_words_are_the_result(bench: Bench) -> None:
    (child,) = await sent(bench)
    assert child.request.session_id.endswith("$$c0")
    assert [t.text for t in child.request.turns if isinstance(t, UserTurn)] == ["task 0"]
    assert sorted(t.name for t in child.request.tools) == ["echo", "look"]
    child.call("x1", "echo", '{"name":"inside"}')
    child.finish(reason="tool_use", usage=Usage(input=100, output=0))
    child = await bench.puppet.next()
    child.finish("found it", usage=Usage(input=200, output=0))
    done = await bench.watcher.run_complete("")
    assert (done.session_id, done.run_id, done.text) == (child.request.session_id, "", "found it")
    (await bench.puppet.next()).finish("thanks", usage=Usage(input=300, output=0))
    assert (await bench.watcher.run_complete("r1")).text == "thanks"
    assert (await results(bench))[0][1] == "found it"
    costs = dict(await bench.sql("SELECT id, cost FROM sessions"))
    assert costs[child.request.session_id] == pytest.approx(300 / 1e6)
    assert costs[SESSION] == pytest.approx((3 + 5 * 2 + 300 + 300) / 1e6)


@pytest.mark.parametrize("error", [ProviderError("down"), ValueError("odd"), asyncio.CancelledError()])
async def test_a_sub_agent_that_fails_is_closed_and_the_turn_goes_on(
    bench: Bench, error: BaseException
) -> None:
    (child,) = await sent(bench)
    child.say("I was about to")
    await bench.watcher.until("message", lambda m: m.text == "I was about to")
    child.fail(error)
    done = await bench.watcher.run_complete("")
    assert (done.session_id, bool(done.error), done.text) == (
        child.request.session_id,
        True,
        "I was about to",
    )
    (await bench.puppet.next()).finish("without it, then")
    assert (await bench.watcher.run_complete("r1")).text == "without it, then"
    assert (await results(bench))[0][2]
    assert await bench.open_messages() == []
    assert bench.store.feeds["w1"].open_frames() == []


async def test_a_sub_agent_that_says_nothing_has_failed(bench: Bench) -> None:
    (child,) = await sent(bench)
    child.finish()
    (await bench.puppet.next()).finish("ok")
    await bench.watcher.run_complete("r1")
    assert (await results(bench))[0][1:] == ("The sub-agent ended without saying anything.", True)


async def test_a_cancel_ends_all_sub_agents_with_an_end_for_each(bench: Bench) -> None:
    children = await sent(bench, 3)
    for child in children:
        child.say("busy")
    await bench.runner.cancel(SESSION)
    await bench.settled()
    for child in children:
        await child.closed.wait()
    await bench.watcher.read()
    ends = [e.payload for e in bench.watcher.seen if e.kind == "run_complete"]
    assert [e.cancelled for e in ends] == [True] * 4
    assert {e.session_id for e in ends} == {SESSION, *(c.request.session_id for c in children)}
    assert await bench.open_messages() == []
    assert [c for c, _, _ in await results(bench)] == ["c0", "c1", "c2"]


async def test_a_store_error_among_parallel_calls_is_told_as_it_is(bench: Bench) -> None:
    """Not as a group of one."""
    step = await begun(bench)
    for n in range(2):
        step.call(f"c{n}", "look", f'{{"name":"{n}"}}')
    step.finish(reason="tool_use")
    for _ in range(2):
        await bench.gate.entered()
    await bench.refuse_writes(True)
    bench.gate.open("0")
    await pass_until(lambda: "1" in bench.gate.left)
    await bench.refuse_writes(False)
    await pass_until(lambda: bench.runner.is_idle)
    done = await bench.watcher.run_complete("r1")
    assert "the disk takes nothing" in done.error
    assert "TaskGroup" not in done.error


# Configuration


async def test_a_turn_keeps_the_model_it_began_with(bench: Bench) -> None:
    step = await begun(bench)
    bench.agent.settings = settings_of(large=None)
    step.call("c1", "echo", '{"name":"x"}')
    step.finish(reason="tool_use")
    (await bench.puppet.next()).finish("still here")
    assert (await bench.watcher.run_complete("r1")).text == "still here"


async def test_a_run_that_nobody_watches_is_offered_no_questions_and_asks_nobody(bench: Bench) -> None:
    step = await begun(bench, interactive=False, permissions="allow")
    assert "wonder" not in {t.name for t in step.request.tools}
    step.call("c1", "act", '{"name":"a"}')
    step.finish(reason="tool_use")
    (await bench.puppet.next()).finish("done")
    await bench.watcher.run_complete("r1")
    assert bench.gate.effects == ["a"]
    assert not [e for e in bench.watcher.seen if e.kind == "permission_request"]
