"""Every window in which a cancel can come: the rows it leaves and the events it sends, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.engine.bench import SESSION, WORKSPACE, Bench, open_bench, summary_under_way

from bullpen.engine import queue
from bullpen.errors import ProviderError
from bullpen.schema.message import CANCELLED_BY_USER
from bullpen.store import prompts
from bullpen.store.prompts import NewRow
from bullpen.store.tx import Tx

USER: tuple[Any, ...] = ("user", "hello", [], [], "stop")


async def head(bench: Bench) -> int:
    return int((await bench.sql("SELECT head FROM workspaces"))[0][0])


async def test_a_cancel_of_an_idle_session_does_nothing_and_spares_the_next_prompt(bench: Bench) -> None:
    before = await head(bench)
    cancelled = await bench.runner.cancel(SESSION)
    assert (cancelled, await head(bench)) == (queue.Cancelled(), before)
    done = await bench.ask_and_hear("hello", "hi", run_id="r1")
    assert (done.text, done.cancelled) == ("hi", False)


async def test_a_prompt_that_has_not_begun_leaves_a_cancelled_turn_behind(bench: Bench) -> None:
    """Accept and cancel in one transaction: nothing can begin between them."""
    before = await head(bench)

    async def work(tx: Tx) -> queue.Cancelled:
        row = NewRow(session=SESSION, text="hello", run_id="r1", own_run_id=True)
        await prompts.accept(tx, WORKSPACE, row)
        return await queue.cancel(tx, WORKSPACE, SESSION)

    assert (await bench.write(work)).dropped == ()
    assert await bench.rows() == [USER, ("assistant", "", [], [], "canceled")]
    assert await bench.logged(before) == [
        ("message", "created", "user", "stop"),
        ("message", "created", "assistant", ""),
        ("message", "updated", "assistant", "canceled"),
        ("run_complete", "r1", "cancelled"),
    ]
    done = await bench.watcher.run_complete("r1")
    assert (done.message_id, done.error, done.text) == ("", "", "")


async def test_a_turn_cancelled_before_the_model_spoke(bench: Bench) -> None:
    await bench.prompt("hello", run_id="r1")
    await bench.puppet.next()
    before = await head(bench)
    await bench.runner.cancel(SESSION)
    assert await bench.rows() == [USER, ("assistant", "", [], [], "canceled")]
    assert await bench.logged(before) == [
        ("message", "updated", "assistant", "canceled"),
        ("run_complete", "r1", "cancelled"),
    ]
    done = await bench.watcher.run_complete("r1")
    answer = (await bench.messages())[1]
    assert (done.message_id, done.error, done.text) == (answer.id, "context canceled", "")
    assert answer.finish is not None
    assert answer.finish.message == CANCELLED_BY_USER


async def test_the_text_so_far_stays_when_a_stream_is_cancelled(bench: Bench) -> None:
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.think("hm")
    step.stop_thinking()
    step.say("half an ")
    await bench.watcher.until("message", lambda m: m.text == "half an ")
    before = await head(bench)
    await bench.runner.cancel(SESSION)
    await step.closed.wait()
    assert await bench.rows() == [USER, ("assistant", "half an ", [], [], "canceled")]
    assert (await bench.messages())[1].reasoning == "hm"
    assert await bench.logged(before) == [
        ("message", "updated", "assistant", "canceled"),
        ("run_complete", "r1", "cancelled"),
    ]
    assert (await bench.watcher.run_complete("r1")).text == "half an "


async def test_what_the_model_says_after_the_cancel_is_answered_is_never_stored(bench: Bench) -> None:
    """D-40: the words are in the pipe when the cancel commits."""
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    await bench.write(lambda tx: queue.cancel(tx, WORKSPACE, SESSION))
    step.say("too late")
    step.call("c1", "act")
    step.finish()
    await bench.settled()
    assert await bench.rows() == [USER, ("assistant", "", [], [], "canceled")]
    assert bench.gate.effects == []
    assert await bench.states() == {"r1": "cancelled"}


async def test_a_call_that_was_still_streaming_in_is_closed_and_not_run(bench: Bench) -> None:
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.begin_call("c1", "act")
    await bench.watcher.until("message", lambda m: m.tool_calls)
    before = await head(bench)
    await bench.runner.cancel(SESSION)
    assert await bench.rows() == [
        USER,
        ("assistant", "", [("c1", "{}", True)], [], "canceled"),
        ("tool", "", [], [("c1", "Error: user cancelled assistant tool calling")], "stop"),
    ]
    assert await bench.logged(before) == [
        ("message", "created", "tool", "stop"),
        ("message", "updated", "assistant", "canceled"),
        ("run_complete", "r1", "cancelled"),
    ]


async def test_a_tool_that_runs_is_ended_and_gets_its_result(bench: Bench) -> None:
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.call("c1", "hold", '{"name":"a"}')
    step.finish(reason="tool_use")
    await bench.gate.entered()
    await bench.runner.cancel(SESSION)
    await bench.settled()
    assert bench.gate.left == ["a"]
    assert await bench.rows() == [
        USER,
        ("assistant", "", [("c1", '{"name":"a"}', True)], [], "canceled"),
        ("tool", "", [], [("c1", "context canceled")], "stop"),
    ]


async def test_an_ask_dies_with_its_turn_and_everybody_is_told(bench: Bench) -> None:
    """D-05."""
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.call("c1", "act", '{"name":"a"}')
    step.finish(reason="tool_use")
    request = await bench.watcher.until("permission_request")
    before = await head(bench)
    await bench.runner.cancel(SESSION)
    assert await bench.logged(before) == [
        ("permission_notification", "denied"),
        ("message", "created", "tool", "stop"),
        ("message", "updated", "assistant", "canceled"),
        ("run_complete", "r1", "cancelled"),
    ]
    assert await bench.grant(request) is False
    assert bench.gate.effects == []


async def test_a_question_dies_with_its_turn(bench: Bench) -> None:
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.call("c1", "wonder", '{"name":"why?"}')
    step.finish(reason="tool_use")
    batch = await bench.watcher.until("question_batch_request")
    await bench.runner.cancel(SESSION)
    notice = await bench.watcher.until("question_batch_notification")
    assert notice.batch_id == batch.id
    assert await bench.services.questions.cancel(batch.id, "ana") is False


async def test_what_waits_behind_a_turn_is_dropped_first_and_leaves_no_rows(bench: Bench) -> None:
    await bench.prompt("hello", run_id="r1")
    await bench.puppet.next()
    await bench.prompt("second", run_id="r2")
    await bench.prompt("third")
    before = await head(bench)
    cancelled = await bench.runner.cancel(SESSION)
    assert cancelled.dropped == ("second", "third")
    assert await bench.logged(before) == [
        ("run_complete", "r2", "cancelled"),
        ("run_complete", "auto-third", "cancelled"),
        ("queue_changed",),
        ("message", "updated", "assistant", "canceled"),
        ("run_complete", "r1", "cancelled"),
    ]
    assert await bench.rows() == [USER, ("assistant", "", [], [], "canceled")]
    await bench.settled()
    assert set((await bench.states()).values()) == {"cancelled"}


async def test_a_prompt_accepted_after_the_cancel_runs(bench: Bench) -> None:
    """R-05, although the cancelled turn is still dying when it comes."""
    await bench.prompt("hello", run_id="r1")
    await bench.puppet.next()
    await bench.runner.cancel(SESSION)
    done = await bench.ask_and_hear("again", "here", run_id="r2")
    assert (done.text, done.cancelled) == ("here", False)
    assert await bench.states() == {"r1": "cancelled", "r2": "done"}


async def test_a_second_cancel_is_harmless(bench: Bench) -> None:
    await bench.prompt("hello", run_id="r1")
    await bench.puppet.next()
    await bench.runner.cancel(SESSION)
    after = await head(bench)
    assert await bench.runner.cancel(SESSION) == queue.Cancelled()
    assert await head(bench) == after


async def test_a_cancelled_summary_vanishes(bench: Bench) -> None:
    await bench.ask_and_hear("hello", "hi", run_id="r1")
    before = await head(bench)
    async with summary_under_way(bench) as step:
        step.say("so far")
        await bench.watcher.until("message", lambda m: m.is_summary_message and m.text)
        await bench.runner.cancel(SESSION)
    assert await bench.rows() == [USER, ("assistant", "hi", [], [], "end_turn")]
    logged = await bench.logged(before)
    assert logged == [("message", "created", "assistant", ""), ("message", "deleted", "assistant", "")]
    assert (await bench.watcher.until("message", action="deleted")).is_summary_message


async def test_the_queue_shown_to_the_room_is_emptied_when_its_next_prompt_is_cancelled(bench: Bench) -> None:
    """The prompt waited behind a turn that has ended; it is the session's first now and has not begun."""

    async def work(tx: Tx) -> None:
        for name in ("r1", "r2"):
            row = NewRow(session=SESSION, text=f"text of {name}", run_id=name, own_run_id=True)
            await prompts.accept(tx, WORKSPACE, row)
        await prompts.end(tx, WORKSPACE, 1, "done")
        await queue.cancel(tx, WORKSPACE, SESSION)

    before = await head(bench)
    await bench.write(work)
    shown = [e for e in await bench.logged(before) if e[0] == "queue_changed"]
    assert shown == [("queue_changed",)]


async def test_a_retrying_turn_is_cancelled_while_it_waits(bench: Bench) -> None:
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.say("doomed")
    step.fail(ProviderError("busy", retryable=True, retry_after_s=50))
    await bench.watcher.until("message", lambda m: m.role == "assistant" and m.text == "" and m.updated_at)
    await bench.runner.cancel(SESSION)
    await bench.settled()
    assert await bench.states() == {"r1": "cancelled"}


@pytest.mark.parametrize("resume", [True, False])
async def test_a_cancel_survives_a_crash_right_after_it(tmp_path: Path, resume: bool) -> None:
    """R-04: it was one transaction, so there is nothing left to do after the restart."""
    async with open_bench(tmp_path / "one") as bench:
        await bench.session()
        await bench.prompt("hello", run_id="r1")
        await bench.puppet.next()
        await bench.prompt("behind", run_id="r2")
        await bench.write(lambda tx: queue.cancel(tx, WORKSPACE, SESSION))
        await bench.crash_into(tmp_path / "two")
    async with open_bench(tmp_path / "two", resume=resume) as bench:
        assert await bench.states() == {"r1": "cancelled", "r2": "cancelled"}
        assert bench.puppet.asked.empty()
        assert await bench.open_messages() == []
