"""The queue of a session: folding, own turns, edits, and idempotency."""

from __future__ import annotations

import asyncio

import pytest
from tests.engine.bench import SESSION, WORKSPACE, Answering, Bench

from bullpen.engine import queue
from bullpen.errors import PromptNotFound
from bullpen.providers.base import UserTurn
from bullpen.schema.api import Attachment, QueueEdit


def heard(step: Answering) -> list[str]:
    """What people said, as the model sees it."""
    return [t.text for t in step.request.turns if isinstance(t, UserTurn)]


async def busy(bench: Bench, run_id: str = "r1") -> Answering:
    await bench.prompt("first", run_id=run_id)
    return await bench.puppet.next()


async def test_prompts_without_a_run_id_join_the_next_step(bench: Bench) -> None:
    step = await busy(bench)
    await bench.prompt("more")
    await bench.prompt("and more")
    step.call("c1", "echo")
    step.finish(reason="tool_use")
    step = await bench.puppet.next()
    assert heard(step) == ["first", "more", "and more"]
    assert await bench.queue() == []
    step.finish("to all of you")
    done = await bench.watcher.run_complete("r1")
    assert done.run_ids == ("auto-more", "auto-and more")
    assert set((await bench.states()).values()) == {"done"}
    await bench.settled()
    ends = [e for e in bench.watcher.seen if e.kind == "run_complete"]
    assert len(ends) == 1


async def test_without_a_next_step_the_first_begins_a_turn_and_the_rest_join_it(bench: Bench) -> None:
    step = await busy(bench)
    for text in ("a", "b", "c"):
        await bench.prompt(text)
    step.finish("done")
    await bench.watcher.run_complete("r1")
    step = await bench.puppet.next()
    assert heard(step) == ["first", "a", "b", "c"]
    step.finish("to all three")
    assert (await bench.watcher.run_complete("auto-a")).run_ids == ("auto-b", "auto-c")


async def test_prompts_with_a_run_id_have_their_own_turn_and_nobody_overtakes(bench: Bench) -> None:
    step = await busy(bench)
    await bench.prompt("own", run_id="r2")
    await bench.prompt("joins")
    step.call("c1", "echo")
    step.finish(reason="tool_use")
    step = await bench.puppet.next()
    assert heard(step) == ["first"]
    step.finish("one")
    step = await bench.puppet.next()
    assert heard(step) == ["first", "own"]
    step.finish("two")
    step = await bench.puppet.next()
    assert heard(step) == ["first", "own", "joins"]
    step.finish("three")
    await bench.watcher.run_complete("auto-joins")
    ends = [e.payload.run_id for e in bench.watcher.seen if e.kind == "run_complete"]
    assert ends == ["r1", "r2", "auto-joins"]


async def test_a_cancelled_turn_names_those_who_had_joined_it(bench: Bench) -> None:
    step = await busy(bench)
    await bench.prompt("more")
    step.call("c1", "echo")
    step.finish(reason="tool_use")
    await bench.puppet.next()
    await bench.runner.cancel(SESSION)
    done = await bench.watcher.run_complete("r1")
    assert (done.cancelled, done.run_ids) == (True, ("auto-more",))
    assert set((await bench.states()).values()) == {"cancelled"}


async def test_sessions_do_not_wait_for_each_other(bench: Bench) -> None:
    await bench.session("s2")
    await busy(bench)
    await bench.prompt("other", run_id="r2", session="s2")
    (await bench.puppet.next()).finish("at once")
    assert (await bench.watcher.run_complete("r2")).text == "at once"


async def test_prompts_accepted_together_run_one_at_a_time_in_order(bench: Bench) -> None:
    """R-03, D-36."""
    await asyncio.gather(*(bench.prompt(f"p{n}", run_id=f"r{n}") for n in range(10)))
    for n in range(10):
        step = await bench.puppet.next()
        assert heard(step)[-1] == f"p{n}"
        assert bench.puppet.asked.empty()
        step.finish(f"a{n}")
    await bench.settled()
    await bench.watcher.read()
    ends = [e.payload.run_id for e in bench.watcher.seen if e.kind == "run_complete"]
    assert ends == [f"r{n}" for n in range(10)]


async def test_a_repeated_key_runs_once_and_answers_with_the_first_run_id(bench: Bench) -> None:
    """R-02."""
    runs = await asyncio.gather(
        *(bench.prompt("same", run_id=f"r{n}", idempotency_key="k") for n in range(5))
    )
    assert runs == ["r0"] * 5
    (await bench.puppet.next()).finish("once")
    await bench.watcher.run_complete("r0")
    assert await bench.prompt("same", run_id="r9", idempotency_key="k") == "r0"
    await bench.settled()
    assert bench.puppet.asked.empty()
    assert await bench.states() == {"r0": "done"}


async def test_attachments_wait_with_their_prompt(bench: Bench) -> None:
    await busy(bench)
    text = Attachment(file_path="a.txt", file_name="a.txt", mime_type="text/plain", content=b"inside")
    await bench.prompt("see", run_id="r2", attachments=(text,))
    listed = await bench.read(lambda tx: queue.listed(tx, WORKSPACE, SESSION))
    assert [p.attachments for p in listed] == [1]


# Edits


async def test_a_waiting_prompt_can_be_changed_moved_and_withdrawn(bench: Bench) -> None:
    step = await busy(bench)
    for n in (2, 3, 4):
        await bench.prompt(f"text {n}", run_id=f"r{n}")

    async def edit(run_id: str, change: QueueEdit) -> None:
        seq = await bench.seq_of(run_id)
        await bench.write(lambda tx: queue.edit(tx, WORKSPACE, SESSION, seq, change))

    await edit("r3", QueueEdit(prompt="changed", index=0))
    assert await bench.queue() == ["changed", "text 2", "text 4"]
    await edit("r3", QueueEdit(index=1))
    seq = await bench.seq_of("r2")
    await bench.write(lambda tx: queue.withdraw(tx, WORKSPACE, SESSION, seq))
    assert (await bench.watcher.run_complete("r2")).cancelled
    assert await bench.queue() == ["changed", "text 4"]
    step.finish("on")
    step = await bench.puppet.next()
    assert heard(step)[-1] == "changed"


@pytest.mark.parametrize("which", ["active", "ended", "elsewhere", "unknown", "summary"])
async def test_only_what_waits_can_be_changed(bench: Bench, which: str) -> None:
    await bench.ask_and_hear("zero", "ok", run_id="r0")
    if which == "summary":
        await bench.write(lambda tx: queue.accept_summary(tx, WORKSPACE, SESSION))
        seq = 2
    else:
        await busy(bench)
        await bench.prompt("behind", run_id="r2")
        seq = {"active": 2, "ended": 1, "elsewhere": 3, "unknown": 99}[which]
    session = "nowhere" if which == "elsewhere" else SESSION
    with pytest.raises(PromptNotFound):
        await bench.write(lambda tx: queue.withdraw(tx, WORKSPACE, session, seq))
    with pytest.raises(PromptNotFound):
        await bench.write(lambda tx: queue.edit(tx, WORKSPACE, session, seq, QueueEdit(prompt="x")))


async def test_clearing_takes_what_waits_and_spares_the_turn(bench: Bench) -> None:
    step = await busy(bench)
    await bench.prompt("a", run_id="r2")
    await bench.prompt("b")
    assert await bench.write(lambda tx: queue.clear(tx, WORKSPACE, SESSION)) == ("a", "b")
    assert (await bench.watcher.run_complete("r2")).cancelled
    assert (await bench.watcher.run_complete("auto-b")).cancelled
    assert await bench.queue() == []
    step.finish("undisturbed")
    assert (await bench.watcher.run_complete("r1")).text == "undisturbed"


async def test_the_room_sees_the_queue_change(bench: Bench) -> None:
    step = await busy(bench)
    await bench.prompt("a")
    await bench.prompt("b")
    step.finish("x")
    (await bench.puppet.next()).finish("y")
    await bench.watcher.run_complete("auto-a")
    shown = [e for e in await bench.logged() if e[0] == "queue_changed"]
    assert shown[-1] == ("queue_changed",)
    live = [tuple(p.text for p in e.payload.prompts) for e in bench.watcher.seen if e.kind == "queue_changed"]
    assert live[:2] == [("a",), ("a", "b")]
    assert live[-1] == ()
