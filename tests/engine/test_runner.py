"""Runners: whatever goes wrong around a turn, every accepted prompt gets its one end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.engine.bench import (
    SESSION,
    WORKSPACE,
    Bench,
    open_bench,
    settings_of,
    summarize,
    summary_under_way,
    until,
)

from bullpen.errors import (
    AgentNotReady,
    ConfigError,
    ProviderError,
    SessionBusy,
    SessionNotFound,
    StoreError,
    WorkspaceClosing,
)
from bullpen.schema.asks import PermissionRequest
from bullpen.store import prompts, sessions
from bullpen.store.prompts import NewRow
from bullpen.store.tx import Tx


async def abandoned(call: Callable[[], Awaitable[Any]]) -> None:
    """Make the call, and stop waiting for it as soon as it waits: its caller has gone."""
    task = asyncio.ensure_future(call())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def lingering_turn(bench: Bench) -> None:
    """A cancelled turn whose tool does not die yet: the session is idle in the store, its runner is not."""
    await bench.prompt("linger", run_id="lingering")
    step = await bench.puppet.next()
    step.call("c1", "linger", '{"name":"l"}')
    step.finish(reason="tool_use")
    await bench.gate.entered()
    await bench.runner.cancel(SESSION)


# Callers that leave


async def test_a_prompt_runs_although_its_caller_left_before_the_answer(bench: Bench) -> None:
    await abandoned(lambda: bench.prompt("hello", run_id="r1"))
    (await bench.puppet.next()).finish("hi")
    assert (await bench.watcher.run_complete("r1")).text == "hi"


async def test_a_cancel_ends_the_tool_although_its_caller_left_before_the_answer(bench: Bench) -> None:
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.call("c1", "hold", '{"name":"a"}')
    step.finish(reason="tool_use")
    await bench.gate.entered()
    await abandoned(lambda: bench.runner.cancel(SESSION))
    assert (await bench.watcher.run_complete("r1")).cancelled
    await bench.settled()
    assert bench.gate.left == ["a"]


async def test_a_grant_wakes_the_tool_although_its_caller_left_before_the_answer(bench: Bench) -> None:
    """R-28: no orphan wait."""
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.call("c1", "act", '{"name":"a"}')
    step.finish(reason="tool_use")
    request: PermissionRequest = await bench.watcher.until("permission_request")
    await abandoned(lambda: bench.grant(request))
    (await bench.puppet.next()).finish("done")
    assert (await bench.watcher.run_complete("r1")).text == "done"
    assert bench.gate.effects == ["a"]


async def test_a_summary_is_made_although_its_caller_left_before_it_began(bench: Bench) -> None:
    await bench.ask_and_hear("hello", "hi", run_id="r1")
    await abandoned(lambda: bench.runner.summarize(SESSION))
    (await bench.puppet.next()).finish("in short")
    await bench.watcher.until("session", lambda s: s.summary_message_id)
    await bench.settled()
    assert (await bench.rows())[-1][1] == "in short"


# A store that refuses


async def test_a_prompt_that_cannot_begin_begins_when_the_store_is_mended(bench: Bench) -> None:
    """R-11: nobody has to come along and wake it."""
    row = NewRow(session=SESSION, text="hello", run_id="r1", own_run_id=True)
    await bench.write(lambda tx: prompts.accept(tx, WORKSPACE, row))
    await bench.refuse_writes(True)
    bench.runner.wake(SESSION)
    await until(lambda: bench.store.tally["store_errors"] > 0)
    await bench.refuse_writes(False)
    (await bench.puppet.next()).finish("hi")
    assert (await bench.watcher.run_complete("r1")).text == "hi"


async def test_a_turn_that_fails_while_the_store_refuses_gets_its_end_when_it_is_mended(bench: Bench) -> None:
    """R-06, R-11."""
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.say("so far")
    await bench.watcher.until("message", lambda m: m.text == "so far")
    await bench.refuse_writes(True)
    step.fail()
    await step.closed.wait()
    await bench.refuse_writes(False)
    done = await bench.watcher.run_complete("r1")
    assert (done.text, done.error) == ("so far", "no answer")
    assert (await bench.ask_and_hear("again", "here", run_id="r2")).text == "here"


async def test_a_turn_whose_last_write_is_refused_ends_as_failed(bench: Bench) -> None:
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    await bench.refuse_writes(True)
    step.finish("hi")
    await step.closed.wait()
    await bench.refuse_writes(False)
    done = await bench.watcher.run_complete("r1")
    assert "database" in done.error
    assert await bench.open_messages() == []


async def test_growing_text_that_was_refused_is_not_lost(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The words before and after a refused tick make one text, also when the turn is then cancelled."""
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.say("one ")
    await bench.watcher.until("message", lambda m: m.text == "one ")
    await bench.refuse_writes(True)
    step.say("two ")
    with caplog.at_level(logging.ERROR, "bullpen.store"):
        await until(lambda: any("not stored yet" in record.message for record in caplog.records))
    await bench.refuse_writes(False)
    step.say("three")
    await bench.watcher.until("message", lambda m: m.text == "one two three")
    await bench.runner.cancel(SESSION)
    assert (await bench.watcher.run_complete("r1")).text == "one two three"


async def test_a_workspace_closes_although_the_store_refuses(bench: Bench) -> None:
    """What could not be stored is found by the recovery of the next opening."""
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    await bench.refuse_writes(True)
    await bench.runner.close(drop_queue=True)
    assert step.closed.is_set()
    await bench.refuse_writes(False)


# Configurations and models that misbehave


async def test_a_model_that_goes_away_after_the_turn_began_does_not_leave_it_open(bench: Bench) -> None:
    calls = []

    def second_time_fails() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise ConfigError("the provider is gone")

    bench.agent.on_provider = second_time_fails
    await bench.prompt("hello", run_id="r1")
    with anyio.move_on_after(1):
        (await bench.puppet.next()).finish("hi")
    await bench.settled()
    assert (await bench.states())["r1"] in ("done", "failed")
    assert await bench.open_messages() == []


async def test_a_provider_that_cannot_be_made_fails_the_prompt_and_nothing_else(bench: Bench) -> None:
    def burst() -> None:
        raise ValueError("bad key")

    bench.agent.on_provider = burst
    await bench.prompt("hello", run_id="r1")
    assert "bad key" in (await bench.watcher.run_complete("r1")).error
    bench.agent.on_provider = lambda: None
    assert (await bench.ask_and_hear("again", "here", run_id="r2")).text == "here"


@pytest.mark.parametrize("error", [ValueError("odd"), asyncio.CancelledError(), StopAsyncIteration("no")])
async def test_whatever_a_provider_raises_ends_the_turn_as_failed(bench: Bench, error: BaseException) -> None:
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.say("so far")
    await bench.watcher.until("message", lambda m: m.text == "so far")
    step.fail(error)
    done = await bench.watcher.run_complete("r1")
    assert (done.text, done.cancelled, bool(done.error)) == ("so far", False, True)
    assert (await bench.ask_and_hear("again", "here", run_id="r2")).text == "here"


async def test_a_failed_turn_does_not_hold_up_the_queue(bench: Bench) -> None:
    """D-13."""
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    await bench.prompt("next", run_id="r2")
    step.fail(ProviderError("boom", title="Overloaded"))
    assert (await bench.watcher.run_complete("r1")).error == "boom"
    (await bench.puppet.next()).finish("on we go")
    assert (await bench.watcher.run_complete("r2")).text == "on we go"


async def test_a_prompt_for_an_unknown_session_ends_with_an_error_and_leaves_the_shown_queue(
    bench: Bench,
) -> None:
    await bench.prompt("one", run_id="r1", session="nowhere")
    await bench.prompt("two", run_id="r2", session="nowhere")
    for run_id in ("r1", "r2"):
        assert (await bench.watcher.run_complete(run_id)).error == "session not found"
    await bench.settled()
    queues = [e for e in await bench.logged() if e[0] == "queue_changed"]
    assert queues in ([], [("queue_changed",)])
    assert await bench.rows("nowhere") == []


# Summaries


async def test_a_summary_is_answered_when_it_is_there(bench: Bench) -> None:
    await bench.ask_and_hear("hello", "hi", run_id="r1")
    async with summary_under_way(bench) as step:
        await bench.prompt("meanwhile", run_id="r2")
        with pytest.raises(SessionBusy):
            await bench.runner.summarize(SESSION)
        assert [type(t).__name__ for t in step.request.turns] == ["UserTurn", "AssistantTurn", "UserTurn"]
        step.finish("in short")
    step = await bench.puppet.next()
    assert [getattr(t, "text", "") for t in step.request.turns] == ["in short", "meanwhile"]
    step.finish("ok")
    assert (await bench.watcher.run_complete("r2")).text == "ok"


async def test_an_empty_session_has_nothing_to_summarise(bench: Bench) -> None:
    await bench.runner.summarize(SESSION)
    assert bench.puppet.asked.empty()
    with pytest.raises(SessionNotFound):
        await bench.runner.summarize("nowhere")


async def test_a_failed_summary_tells_its_caller_and_is_not_used(bench: Bench) -> None:
    await bench.ask_and_hear("hello", "hi", run_id="r1")
    with pytest.raises(ExceptionGroup) as caught:
        async with summary_under_way(bench) as step:
            step.fail()
    assert caught.group_contains(ProviderError, match="no answer")
    last = (await bench.messages())[-1]
    assert last.finish is not None
    assert (last.is_summary_message, last.finish.reason, last.finish.message) == (
        True,
        "error",
        "Summarization Error",
    )
    await bench.prompt("more", run_id="r2")
    step = await bench.puppet.next()
    assert [getattr(t, "text", "") for t in step.request.turns] == ["hello", "hi", "more"]


async def test_a_summary_cancelled_before_it_began_answers_its_caller(bench: Bench) -> None:
    await bench.ask_and_hear("hello", "hi", run_id="r1")
    await lingering_turn(bench)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(summarize, bench)
        await _until_accepted(bench)
        await bench.runner.cancel(SESSION)
    bench.gate.open("l")


async def test_a_summary_that_cannot_begin_tells_its_caller(bench: Bench) -> None:
    await bench.ask_and_hear("hello", "hi", run_id="r1")
    await lingering_turn(bench)
    waiting = asyncio.ensure_future(summarize(bench))
    await _until_accepted(bench)
    bench.agent.settings = settings_of(large=None)
    bench.gate.open("l")
    with pytest.raises(AgentNotReady):
        await waiting


async def test_a_summary_that_waits_when_the_workspace_closes_answers_its_caller(bench: Bench) -> None:
    await bench.ask_and_hear("hello", "hi", run_id="r1")
    await lingering_turn(bench)
    waiting = asyncio.ensure_future(summarize(bench))
    await _until_accepted(bench)
    bench.gate.open("l")
    await bench.runner.close(drop_queue=False)
    with pytest.raises(WorkspaceClosing):
        await waiting


async def test_a_summary_whose_session_is_deleted_before_it_began_answers_its_caller(bench: Bench) -> None:
    await bench.ask_and_hear("hello", "hi", run_id="r1")
    await lingering_turn(bench)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(summarize, bench)
        await _until_accepted(bench)
        await bench.runner.delete_session(SESSION)
    bench.gate.open("l")


async def test_a_summary_whose_runner_breaks_tells_its_caller(bench: Bench) -> None:
    await bench.ask_and_hear("hello", "hi", run_id="r1")
    await lingering_turn(bench)
    waiting = asyncio.ensure_future(summarize(bench))
    await _until_accepted(bench)
    await bench.write(_spoil_the_session)
    bench.gate.open("l")
    with pytest.raises(msgspec.DecodeError):
        await waiting
    await bench.settled()


async def test_a_summary_that_the_disk_lost_tells_its_caller(bench: Bench) -> None:
    await bench.ask_and_hear("hello", "hi", run_id="r1")
    with pytest.raises(ExceptionGroup) as caught:
        async with summary_under_way(bench):
            bench.store.on_rewind[WORKSPACE]()
    assert caught.group_contains(StoreError, match="the disk failed")
    await bench.settled()
    last = (await bench.messages())[-1]
    assert last.finish is not None
    assert (last.is_summary_message, last.finish.message) == (True, "Interrupted")


async def test_a_summary_accepted_while_the_workspace_closes_answers_its_caller(bench: Bench) -> None:
    await bench.ask_and_hear("hello", "hi", run_id="r1")
    waiting = asyncio.ensure_future(summarize(bench))
    await asyncio.sleep(0)  # Its write is handed in, and not made yet.
    await bench.runner.close(drop_queue=False)
    with pytest.raises(WorkspaceClosing):
        await waiting


async def _spoil_the_session(tx: Tx) -> None:
    await tx.run("UPDATE sessions SET todos = 'not a list'")


async def _until_accepted(bench: Bench) -> None:
    async def accepted() -> bool:
        return bool(await bench.sql("SELECT 1 FROM prompts WHERE kind = 'summary'"))

    await until(accepted)


# Closing


async def test_the_last_client_takes_turn_and_queue_with_it(bench: Bench) -> None:
    await bench.prompt("one", run_id="r1")
    step = await bench.puppet.next()
    await bench.prompt("two", run_id="r2")
    await bench.runner.close(drop_queue=True)
    assert step.closed.is_set()
    assert await bench.states() == {"r1": "cancelled", "r2": "cancelled"}
    with pytest.raises(WorkspaceClosing):
        await bench.prompt("three", run_id="r3")


async def test_a_server_that_leaves_keeps_what_only_waits(tmp_path: Path) -> None:
    async with open_bench(tmp_path) as bench:
        await bench.session()
        await bench.prompt("one", run_id="r1")
        await bench.puppet.next()
        await bench.prompt("two", run_id="r2")
        await bench.runner.close(drop_queue=False)
        assert await bench.states() == {"r1": "cancelled", "r2": "accepted"}
    async with open_bench(tmp_path) as bench:
        (await bench.puppet.next()).finish("late but here")
        assert (await bench.watcher.run_complete("r2")).text == "late but here"


# Deleting


async def test_deleting_a_busy_session_stops_it_and_leaves_nothing(bench: Bench) -> None:
    """D-17."""
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.call("c1", "hold", '{"name":"a"}')
    step.finish(reason="tool_use")
    await bench.gate.entered()
    await bench.runner.delete_session(SESSION)
    await bench.settled()
    assert bench.gate.left == ["a"]
    assert (await bench.watcher.run_complete("r1")).cancelled
    for table in ("messages", "sessions", "asks", "intents"):
        assert await bench.sql(f"SELECT * FROM {table} WHERE workspace = '{WORKSPACE}'") == []
    # What is in the trash is whole.
    assert await bench.sql("SELECT * FROM chunks") == []
    assert await bench.open_messages() == []


async def test_deleting_a_session_stops_what_runs_in_its_sub_sessions(bench: Bench) -> None:
    """A person may prompt in a sub-agent's session too."""
    await bench.write(lambda tx: sessions.create(tx, WORKSPACE, "child", "c", parent=SESSION))
    await bench.prompt("hello", run_id="r1", session="child")
    step = await bench.puppet.next()
    step.call("c1", "hold", '{"name":"a"}')
    step.finish(reason="tool_use")
    await bench.gate.entered()
    await bench.runner.delete_session(SESSION)
    await bench.settled()
    assert bench.gate.left == ["a"]


async def test_deleting_a_sub_agents_session_ends_the_turn_that_uses_it(bench: Bench) -> None:
    await bench.prompt("hello", run_id="r1")
    step = await bench.puppet.next()
    step.call("c1", "send", '{"prompt":"look around"}')
    step.finish(reason="tool_use")
    child = await bench.puppet.next()
    child.say("I see")
    await bench.watcher.until("message", lambda m: m.text == "I see")
    await bench.runner.delete_session(child.request.session_id)
    child.finish(" nothing")
    (await bench.puppet.next()).finish("never mind")
    assert (await bench.watcher.run_complete("r1")).text == "never mind"
    assert await bench.open_messages() == []
    assert await bench.rows(child.request.session_id) == []
