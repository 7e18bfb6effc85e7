"""What the reference is known to get wrong in a turn, where no other module shows it; `docs/turns.md` has the whole list."""

from __future__ import annotations

import anyio
import pytest
from tests.engine.bench import SESSION, WORKSPACE, Answering, Bench

from bullpen.config.agents import SubAgent
from bullpen.errors import ConfigError
from bullpen.providers.base import ToolTurn, Usage, UserTurn
from bullpen.schema.api import QuestionAnswer
from bullpen.schema.asks import QuestionResponse
from bullpen.schema.session import Todo
from bullpen.store import sessions, trash

FULL = Usage(input=850, output=10)


def heard(step: Answering) -> list[str]:
    return [turn.text for turn in step.request.turns if isinstance(turn, UserTurn)]


async def with_echo(step: Answering, usage: Usage | None = None) -> None:
    step.call(f"call-{id(step)}", "echo", '{"name": "x"}')
    step.finish(reason="tool_use", usage=usage)


async def sent(bench: Bench, **more: str) -> Answering:
    """The first step of a sub-agent."""
    await bench.prompt("go", run_id="r", **more)
    step = await bench.puppet.next()
    step.call("c1", "send", '{"prompt": "look"}')
    step.finish(reason="tool_use")
    return await bench.puppet.next()


async def test_a_prompt_that_joined_is_heard_in_every_later_step(bench: Bench) -> None:
    """4"""
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    await bench.prompt("and this")
    for _ in range(3):
        await with_echo(step)
        step = await bench.puppet.next()
        assert heard(step) == ["go", "and this"]
    step.finish("done")
    await bench.watcher.run_complete("r")


async def test_a_run_that_answers_for_itself_answers_for_its_sub_agents(bench: Bench) -> None:
    """8: nobody is there to be asked, and nothing hangs."""
    bench.agent.sub_agents[""] = SubAgent(tools=frozenset({"act"}))
    child = await sent(bench, permissions="deny")
    child.call("c2", "act", '{"name": "x"}')
    child.finish(reason="tool_use")
    (await bench.puppet.next()).finish("it was not allowed")
    (await bench.puppet.next()).finish("they may not")
    await bench.watcher.run_complete("r")
    assert bench.gate.effects == []
    assert [e for e in bench.watcher.seen if e.kind == "permission_request"] == []


async def test_a_sub_agent_is_named_by_no_model(bench: Bench) -> None:
    """9"""
    child = await sent(bench)
    child.finish("seen")
    (await bench.puppet.next()).finish("done")
    await bench.watcher.run_complete("r")
    assert bench.puppet.titles.empty()


async def test_a_title_is_paid_for_and_fills_no_context(bench: Bench) -> None:
    """10"""
    await bench.session("s2", "")
    bench.puppet.title = None
    await bench.prompt("hello", run_id="r", session="s2")
    (await bench.puppet.titles.get()).finish("A name", usage=Usage(input=500, output=200))
    await bench.watcher.until("session", lambda s: s.title == "A name")
    (await bench.puppet.next()).finish("hi", usage=Usage(input=3, output=5))
    await bench.watcher.run_complete("r")
    session = await bench.read(lambda tx: sessions.get(tx, WORKSPACE, "s2"))
    assert (session.prompt_tokens, session.completion_tokens) == (3, 5)
    assert session.cost == pytest.approx((500 + 3 + 2 * (200 + 5)) / 1e6)


async def test_the_interrupted_task_goes_on_before_what_waits(bench: Bench) -> None:
    """17: and a second summary does not wrap the first one's words again."""
    await bench.prompt("the task", run_id="r")
    step = await bench.puppet.next()
    await bench.prompt("afterwards", run_id="r2", timing="after")
    for n in range(2):
        await with_echo(step, FULL)
        summary = await bench.puppet.next()
        assert summary.request.purpose == "summary"
        summary.finish(f"summary {n}")
        step = await bench.puppet.next()
        [told] = heard(step)
        assert told.count("summary") == 1
        assert told.count("<request>\nthe task\n</request>") == 1
        assert "afterwards" not in told
    step.finish("done")
    assert (await bench.watcher.run_complete("r")).text == "done"
    step = await bench.puppet.next()
    assert "afterwards" in heard(step)[-1]
    step.finish("done too")
    await bench.watcher.run_complete("r2")


async def test_what_is_written_of_a_session_at_once_is_all_kept(bench: Bench) -> None:
    """18: a person renames it, a tool plans, three sub-agents spend."""
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    for n in range(3):
        step.call(f"c{n}", "send", f'{{"prompt": "task {n}"}}')
    step.finish(reason="tool_use", usage=Usage(input=100))
    children = [await bench.puppet.next() for _ in range(3)]
    todos = (Todo(content="a", status="pending", active_form="doing a"),)
    async with anyio.create_task_group() as tasks:
        for child in children:
            child.finish("seen", usage=Usage(input=100))
        tasks.start_soon(
            bench.write, lambda tx: sessions.change(tx, WORKSPACE, SESSION, title="Mine", todos=None)
        )
        tasks.start_soon(
            bench.write, lambda tx: sessions.change(tx, WORKSPACE, SESSION, title=None, todos=todos)
        )
    (await bench.puppet.next()).finish("done", usage=Usage(input=100))
    await bench.watcher.run_complete("r")
    session = await bench.read(lambda tx: sessions.get(tx, WORKSPACE, SESSION))
    assert (session.title, session.todos) == ("Mine", todos)
    assert session.cost == pytest.approx(500 / 1e6)


async def test_questions_of_two_sessions_are_answered_each_for_itself(bench: Bench) -> None:
    """17 of the tools: the second batch does not take the first one's place."""
    await bench.session("s2")
    batches = {}
    for session in (SESSION, "s2"):
        await bench.prompt("go", run_id=f"run {session}", session=session)
        step = await bench.puppet.next()
        step.call("c1", "wonder", f'{{"name":"why, {session}?"}}')
        step.finish(reason="tool_use")
        batches[session] = await bench.watcher.until("question_batch_request")
    for session in (SESSION, "s2"):
        response = QuestionResponse(request_id="q1", fill_in_text=f"because of {session}")
        answer = QuestionAnswer(batch_request_id=batches[session].id, responses=(response,))
        assert await bench.services.questions.answer(answer, "ana")
        step = await bench.puppet.next()
        assert step.request.session_id == session
        [result] = [turn.result for turn in step.request.turns if isinstance(turn, ToolTurn)]
        assert result.content == f"because of {session}"
        step.finish("I see")
        await bench.watcher.run_complete(f"run {session}")


async def test_a_session_takes_its_sub_agents_along_and_none_of_them_is_the_last(bench: Bench) -> None:
    """21"""
    await bench.session("s2")
    child = await sent(bench)
    child.finish("seen")
    (await bench.puppet.next()).finish("done")
    await bench.watcher.run_complete("r")
    listed = await bench.read(lambda tx: sessions.top_level(tx, WORKSPACE))
    assert [s.id for s in listed] == [SESSION, "s2"]
    await bench.runner.delete_session(SESSION)
    there = "SELECT id FROM sessions WHERE workspace = $1"
    assert await bench.sql(there, WORKSPACE) == [("s2",)]
    await bench.services.store.write(lambda tx: trash.restore(tx, WORKSPACE, SESSION))
    assert len(await bench.sql(there, WORKSPACE)) == 3
    await bench.runner.delete_session(SESSION)
    await bench.services.store.write(lambda tx: trash.forget(tx, WORKSPACE, SESSION))
    assert await bench.sql("SELECT id FROM sessions") == [("s2",)]


async def test_a_system_prompt_that_cannot_be_made_fails_one_turn_alone(bench: Bench) -> None:
    """29"""

    async def fail() -> None:
        raise ConfigError("a context file is a directory")

    bench.agent.on_prepare = fail
    await bench.prompt("hello", run_id="r1")
    assert "a context file is a directory" in (await bench.watcher.run_complete("r1")).error
    bench.agent.on_prepare = None
    assert (await bench.ask_and_hear("again", "here", run_id="r2")).text == "here"
