"""The list of things to do is the session's: stored with it, seen by everybody, and not written by a turn that has ended."""

from __future__ import annotations

import msgspec
from tests.engine.bench import SESSION, WORKSPACE, Bench

from bullpen.providers.base import ToolTurn
from bullpen.schema.session import Session, Todo
from bullpen.store import sessions
from bullpen.tools.todos import todos

LIST = (Todo(content="Read", status="in_progress", active_form="Reading"),)


async def test_everybody_sees_the_list_and_it_is_stored(bench: Bench) -> None:
    bench.agent.more_tools["todos"] = todos
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.call("c1", "todos", msgspec.json.encode({"todos": LIST}).decode())
    step.finish(reason="tool_use")
    seen: Session = await bench.watcher.until("session", lambda session: bool(session.todos))
    assert seen.todos == LIST
    (await bench.puppet.next()).finish("done")
    await bench.watcher.run_complete("r")
    stored = await bench.read(lambda tx: sessions.get(tx, WORKSPACE, SESSION))
    assert (stored.todos, stored.title) == (LIST, seen.title)


async def test_a_wrong_status_is_a_result_for_the_model(bench: Bench) -> None:
    bench.agent.more_tools["todos"] = todos
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.call("c1", "todos", '{"todos": [{"content": "a", "status": "done"}]}')
    step.finish(reason="tool_use")
    step = await bench.puppet.next()
    said = step.request.turns[-1]
    assert isinstance(said, ToolTurn)
    assert said.result.is_error
    assert "Invalid enum value 'done'" in said.result.content
    step.finish("done")
    assert (await bench.watcher.run_complete("r")).text == "done"
