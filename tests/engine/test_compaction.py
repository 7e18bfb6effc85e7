"""A conversation that grows too long is summarised, keeps what has to be kept, and goes on."""

from __future__ import annotations

import asyncio

import pytest
from tests.engine.bench import SESSION, WORKSPACE, Answering, Bench, settings_of

from bullpen.config.shape import Options
from bullpen.errors import BadRequest, ProviderError, SessionBusy
from bullpen.providers.base import ToolTurn, Usage, UserTurn
from bullpen.schema.session import Todo
from bullpen.store import pins, sessions, summaries

OVERFLOW = ProviderError("prompt is too long", status=400, kind="overflow")
FULL = Usage(input=850, output=10)
"""Of the puppet's context of 1,000 more than four fifths."""


async def full_step(bench: Bench, run_id: str = "r") -> None:
    """A turn whose first step fills the context and calls a tool."""
    await bench.prompt("the request", run_id=run_id)
    step = await bench.puppet.next()
    step.call("c1", "echo", '{"name": "x"}')
    step.finish(reason="tool_use", usage=FULL)


async def next_summary(bench: Bench) -> Answering:
    step = await bench.puppet.next()
    assert step.request.purpose == "summary"
    return step


def conversation(step: Answering) -> str:
    return "\n".join(t.text for t in step.request.turns if isinstance(t, UserTurn))


async def test_a_full_context_is_summarised_in_the_middle_of_the_turn(bench: Bench) -> None:
    await bench.write(lambda tx: pins.add(tx, WORKSPACE, SESSION, "never touch  main.py\n", "ana"))
    todo = Todo(content="write tests", status="in_progress", active_form="writing tests")
    await bench.write(lambda tx: sessions.change(tx, WORKSPACE, SESSION, title=None, todos=(todo,)))
    await full_step(bench)
    summary = await next_summary(bench)
    assert any(isinstance(turn, ToolTurn) for turn in summary.request.turns)
    assert "write tests" in conversation(summary)
    summary.finish("We did things.", usage=Usage(input=900, output=20))
    told = await bench.watcher.until("session_compacted")
    assert (told.reason, told.tokens_before) == ("full", 860)
    step = await bench.puppet.next()
    assert step.request.purpose == "turn"
    [only] = step.request.turns
    assert isinstance(only, UserTurn)
    for kept in ("We did things.", "never touch  main.py\n", "- [in_progress] write tests", "the request"):
        assert kept in only.text
    step.finish("done")
    done = await bench.watcher.run_complete("r")
    assert (done.text, done.error) == ("done", "")
    session = await bench.read(lambda tx: sessions.get(tx, WORKSPACE, SESSION))
    assert session.summary_message_id == told.message_id
    # The next turn sees the summary too, and nothing before it.
    await bench.prompt("more", run_id="r2")
    step = await bench.puppet.next()
    assert step.request.turns[0] == only
    assert len(step.request.turns) == 3
    step.finish("ok")
    await bench.watcher.run_complete("r2")


async def test_a_context_that_was_full_at_the_end_is_summarised_when_the_next_turn_begins(
    bench: Bench,
) -> None:
    await bench.prompt("one", run_id="r1")
    (await bench.puppet.next()).finish("first", usage=FULL)
    await bench.watcher.run_complete("r1")
    await bench.prompt("two", run_id="r2")
    (await next_summary(bench)).finish("short")
    step = await bench.puppet.next()
    assert "<request>\ntwo\n</request>" in conversation(step)
    step.finish("second")
    assert (await bench.watcher.run_complete("r2")).text == "second"


async def test_summaries_can_be_switched_off(bench: Bench) -> None:
    bench.agent.settings = settings_of(options=Options(disable_auto_summarize=True))
    await full_step(bench)
    step = await bench.puppet.next()
    assert step.request.purpose == "turn"
    step.finish("done")
    await bench.watcher.run_complete("r")


async def test_a_host_that_finds_it_too_long_gets_a_summary(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    (await bench.puppet.next()).fail(OVERFLOW)
    (await next_summary(bench)).finish("short")
    assert (await bench.watcher.until("session_compacted")).reason == "overflow"
    step = await bench.puppet.next()
    assert "short" in conversation(step)
    step.finish("done")
    assert (await bench.watcher.run_complete("r")).text == "done"


async def test_a_summary_that_is_too_long_itself_is_asked_for_with_less(bench: Bench) -> None:
    for n in range(4):
        await bench.ask_and_hear(f"prompt {n} " + "x" * 50_000, f"answer {n}", run_id=f"r{n}")
    await bench.prompt("go", run_id="r")
    (await bench.puppet.next()).fail(OVERFLOW)
    sizes = []
    for _ in range(3):
        summary = await next_summary(bench)
        sizes.append(len(conversation(summary)))
        summary.fail(OVERFLOW)
    summary = await next_summary(bench)
    sizes.append(len(conversation(summary)))
    summary.finish("short")
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 4
    (await bench.puppet.next()).finish("done")
    assert (await bench.watcher.run_complete("r")).text == "done"


async def test_when_no_summary_fits_the_requests_are_quoted_instead(bench: Bench) -> None:
    await bench.prompt("mend the roof", run_id="r")
    (await bench.puppet.next()).fail(OVERFLOW)
    while True:
        step = await bench.puppet.next()
        if step.request.purpose == "turn":
            break
        step.fail(OVERFLOW)
    assert "- mend the roof" in conversation(step)
    step.finish("done")
    assert (await bench.watcher.run_complete("r")).text == "done"


async def test_a_summary_that_frees_nothing_is_not_made_again(bench: Bench) -> None:
    await full_step(bench)
    (await next_summary(bench)).finish("x" * 4000)
    step = await bench.puppet.next()
    step.call("c2", "echo", '{"name": "y"}')
    step.finish(reason="tool_use", usage=FULL)
    step = await bench.puppet.next()
    assert step.request.purpose == "turn"
    step.fail(OVERFLOW)
    assert "summarising it did not help" in (await bench.watcher.run_complete("r")).error
    # The session takes the next prompt.
    await bench.prompt("more", run_id="r2")
    step = await bench.puppet.next()
    step.finish("ok")
    if step.request.purpose == "summary":
        (await bench.puppet.next()).finish("ok")
    assert (await bench.watcher.run_complete("r2")).text == "ok"


async def test_a_cancel_in_a_summary_leaves_a_cancelled_turn_and_no_summary(bench: Bench) -> None:
    await full_step(bench)
    (await next_summary(bench)).say("We di")
    await bench.runner.cancel(SESSION)
    assert (await bench.watcher.run_complete("r")).cancelled
    await bench.settled()
    rows = await bench.rows()
    assert [row[-1] for row in rows] == ["stop", "tool_use", "stop", "canceled"]
    assert not any(m.is_summary_message for m in await bench.messages())
    assert (await bench.read(lambda tx: sessions.get(tx, WORKSPACE, SESSION))).summary_message_id == ""


async def test_a_summary_can_be_undone(bench: Bench) -> None:
    await bench.ask_and_hear("one", "first", run_id="r1")
    before = await bench.read(lambda tx: sessions.get(tx, WORKSPACE, SESSION))
    task = asyncio.ensure_future(bench.runner.summarize(SESSION))
    (await next_summary(bench)).finish("short")
    await task
    assert (await bench.watcher.until("session_compacted")).reason == "asked"
    after = await bench.write(lambda tx: summaries.undo(tx, WORKSPACE, SESSION))
    assert (after.summary_message_id, after.prompt_tokens) == ("", before.prompt_tokens)
    await bench.prompt("two", run_id="r2")
    step = await bench.puppet.next()
    assert conversation(step) == "one\ntwo"
    with pytest.raises(SessionBusy):
        await bench.write(lambda tx: summaries.undo(tx, WORKSPACE, SESSION))
    step.finish("second")
    await bench.watcher.run_complete("r2")
    with pytest.raises(BadRequest):
        await bench.write(lambda tx: summaries.undo(tx, WORKSPACE, SESSION))


async def test_a_summary_without_words_quotes_the_requests(bench: Bench) -> None:
    await full_step(bench)
    summary = await next_summary(bench)
    summary.think("hm")
    summary.finish()
    step = await bench.puppet.next()
    assert "- the request" in conversation(step)
    step.finish("done")
    await bench.watcher.run_complete("r")


async def test_what_joined_the_turn_is_quoted_too(bench: Bench) -> None:
    await bench.prompt("do a", run_id="r")
    step = await bench.puppet.next()
    await bench.prompt("no, do b")
    step.call("c1", "echo", '{"name": "x"}')
    step.finish(reason="tool_use", usage=FULL)
    (await next_summary(bench)).finish("short")
    step = await bench.puppet.next()
    assert "<request>\ndo a\n</request>\n<request>\nno, do b\n</request>" in conversation(step)
    step.finish("done")
    await bench.watcher.run_complete("r")
