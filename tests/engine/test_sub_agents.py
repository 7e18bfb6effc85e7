"""Sub-agents: defined in files, with a model, tools and limits of their own; stopped and spoken to singly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.engine.bench import SESSION, WORKSPACE, Answering, Bench, settings_of

from bullpen.config import agents
from bullpen.config.agents import SubAgent
from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers.base import ToolTurn, UserTurn
from bullpen.schema.agent import Model, SelectedModel
from bullpen.schema.choices import Budget, ChoicesChange, SessionChoices
from bullpen.store import sessions, waits

REVIEWER = """\
---
name: reviewer
description: Reads a change and names what is wrong with it.
model: puppet/puppet-2
tools: [Read, echo, hold]
budget: 0.50
steps: 30
---

You read changes.
"""


async def sent(bench: Bench, *prompts: str) -> list[Answering]:
    """A turn that sends a sub-agent for each prompt; what they ask first."""
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    for n, prompt in enumerate(prompts):
        step.call(f"c{n}", "send", f'{{"prompt": "{prompt}"}}')
    step.finish(reason="tool_use")
    children = [await bench.puppet.next() for _ in prompts]
    return sorted(children, key=lambda child: prompts.index(first_words(child)))


def first_words(step: Answering) -> str:
    first = step.request.turns[0]
    assert isinstance(first, UserTurn)
    return first.text


def results(step: Answering) -> list[str]:
    return [turn.result.content for turn in step.request.turns if isinstance(turn, ToolTurn)]


async def test_a_defined_one_has_its_own_model_tools_and_words(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "reviewer.md").write_text(REVIEWER)
    found, wrong = agents.discover([tmp_path])
    assert wrong == []
    defined = found["reviewer"]
    assert (defined.budget, defined.steps, defined.prompt) == (0.5, 30, "You read changes.")
    bench.agent.sub_agents[""] = defined
    models = (Model(id="puppet-1"), Model(id="puppet-2"))
    bench.agent.settings = settings_of(providers={"puppet": ProviderSettings(id="puppet", models=models)})
    [child] = await sent(bench, "look")
    assert child.request.model == "puppet-2"
    assert sorted(spec.name for spec in child.request.tools) == ["echo", "hold"]
    child.finish("fine")
    step = await bench.puppet.next()
    assert (step.request.model, results(step)) == ("puppet-1", ["fine"])
    step.finish("done")
    await bench.watcher.run_complete("r")
    titles = await bench.sql("SELECT title FROM sessions WHERE parent <> ''")
    assert titles == [("Agent reviewer",)]


async def test_a_model_that_is_not_there_is_a_result_for_who_sent_it(bench: Bench) -> None:
    bench.agent.sub_agents[""] = SubAgent(name="x", model=SelectedModel(provider="gone", model="m"))
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.call("c1", "send", '{"prompt": "look"}')
    step.finish(reason="tool_use")
    step = await bench.puppet.next()
    assert "provider 'gone' is not configured" in results(step)[0]
    step.finish("done")
    assert (await bench.watcher.run_complete("r")).text == "done"


async def test_one_is_cancelled_and_the_others_go_on(bench: Bench) -> None:
    first, second = await sent(bench, "one", "two")
    first.say("looking")
    await bench.watcher.until("message", lambda m: m.text == "looking")
    await bench.runner.cancel(first.request.session_id)
    await first.closed.wait()
    second.finish("found it")
    step = await bench.puppet.next()
    assert results(step) == ["The sub-agent failed: it was cancelled by a person", "found it"]
    step.finish("done")
    done = await bench.watcher.run_complete("r")
    assert (done.text, done.cancelled) == ("done", False)
    rows = await bench.rows(first.request.session_id)
    assert rows[-1] == ("assistant", "looking", [], [], "canceled")
    assert await bench.open_messages() == []


async def test_one_is_spoken_to_between_its_steps(bench: Bench) -> None:
    [child] = await sent(bench, "look")
    session = child.request.session_id
    said = await bench.prompt("in the attic too", session=session)
    child.call("k1", "echo", '{"name": "x"}')
    child.finish(reason="tool_use")
    child = await bench.puppet.next()
    assert child.request.session_id == session
    assert child.request.turns[-1] == UserTurn("in the attic too")
    child.finish("nothing there")
    step = await bench.puppet.next()
    assert results(step) == ["nothing there"]
    step.finish("done")
    assert (await bench.watcher.run_complete("r")).run_ids == (said,)


async def test_one_that_is_about_to_leave_hears_what_was_said_last(bench: Bench) -> None:
    [child] = await sent(bench, "look")
    await bench.prompt("and the roof", session=child.request.session_id, timing="step")
    child.finish("the cellar is empty")
    child = await bench.puppet.next()
    assert child.request.turns[-1] == UserTurn("and the roof")
    child.finish("the roof too")
    step = await bench.puppet.next()
    assert results(step) == ["the roof too"]
    step.finish("done")
    await bench.watcher.run_complete("r")


async def test_one_is_broken_off_by_a_word(bench: Bench) -> None:
    [child] = await sent(bench, "look")
    child.say("first I")
    await bench.watcher.until("message", lambda m: m.text == "first I")
    await bench.prompt("hurry", session=child.request.session_id, timing="now")
    await child.closed.wait()
    child = await bench.puppet.next()
    assert child.request.turns[-1] == UserTurn("hurry")
    child.finish("here")
    step = await bench.puppet.next()
    assert results(step) == ["here"]
    step.finish("done")
    await bench.watcher.run_complete("r")


async def test_what_was_said_too_late_becomes_a_turn_of_its_own(bench: Bench) -> None:
    [child] = await sent(bench, "look")
    session = child.request.session_id
    child.say("looking")
    await bench.watcher.until("message", lambda m: m.text == "looking")
    run_id = await bench.prompt("are you there?", run_id="late", session=session)
    await bench.runner.cancel(session)
    seen = [await bench.puppet.next(), await bench.puppet.next()]
    for step in seen:
        step.finish("yes")
    assert (await bench.watcher.run_complete(run_id)).text == "yes"
    await bench.settled()
    assert set((await bench.states()).values()) == {"done"}


async def test_a_prompt_that_wants_a_turn_of_its_own_lets_the_sub_agent_end(bench: Bench) -> None:
    [child] = await sent(bench, "look")
    late = await bench.prompt("later", run_id="late", session=child.request.session_id)
    child.finish("found")
    for _ in range(2):
        step = await bench.puppet.next()
        step.finish("done")
    assert (await bench.watcher.run_complete(late)).text == "done"
    await bench.settled()
    assert set((await bench.states()).values()) == {"done"}


async def test_now_to_one_leaves_the_asks_of_the_others(bench: Bench) -> None:
    bench.agent.sub_agents[""] = SubAgent(tools=frozenset({"act"}))
    first, second = await sent(bench, "one", "two")
    second.call("k1", "act", '{"name": "built"}')
    second.finish(reason="tool_use")
    ask = await bench.watcher.until("permission_request")
    await bench.prompt("hurry", session=first.request.session_id, timing="now")
    first = await bench.puppet.next()
    assert await bench.grant(ask)
    second = await bench.puppet.next()
    first.finish("here")
    second.finish("there")
    step = await bench.puppet.next()
    assert results(step) == ["here", "there"]
    step.finish("done")
    assert (await bench.watcher.run_complete("r")).text == "done"
    assert bench.gate.effects == ["built"]


async def test_a_cancelled_one_leaves_no_ask_and_no_wait(bench: Bench) -> None:
    bench.agent.sub_agents[""] = SubAgent(tools=frozenset({"act"}))
    first, second = await sent(bench, "one", "two")
    first.call("k1", "act", '{"name": "built"}')
    first.finish(reason="tool_use")
    ask = await bench.watcher.until("permission_request")
    second.fail(ProviderError("busy", retryable=True, retry_after_s=50))
    await bench.watcher.until("run_waiting", action="updated")
    for child in (first, second):
        await bench.runner.cancel(child.request.session_id)
    step = await bench.puppet.next()
    assert not await bench.grant(ask)
    assert await bench.read(lambda tx: waits.all_of(tx, WORKSPACE)) == []
    step.finish("done")
    await bench.watcher.run_complete("r")
    assert await bench.open_messages() == []


async def test_a_summary_of_one_quotes_its_own_task(bench: Bench) -> None:
    [child] = await sent(bench, "look in the cellar")
    child.fail(ProviderError("too long", kind="overflow"))
    summary = await bench.puppet.next()
    assert summary.request.purpose == "summary"
    summary.finish("short")
    child = await bench.puppet.next()
    assert "<request>\nlook in the cellar\n</request>" in first_words(child)
    child.finish("empty")
    (await bench.puppet.next()).finish("done")
    await bench.watcher.run_complete("r")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no head", "must begin with ---"),
        ("---\nname: a\n---\n", "no description"),
        ("---\nname: a b\ndescription: d\n---\n", "letters, digits"),
        ("---\nname: a\ndescription: d\nbudget: much\n---\n", "budget is no number"),
        ("---\nname: a\ndescription: d\nsteps: -1\n---\n", "steps is out of range"),
    ],
)
def test_a_file_that_defines_none_says_why(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "a.md").write_text(text)
    found, [wrong] = agents.discover([tmp_path])
    assert not found
    assert why in wrong


def test_tools_in_every_spelling_and_the_later_directory_wins(tmp_path: Path) -> None:
    head = "---\nname: {name}\ndescription: d\n{tools}\n---\n"
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    spelled = {
        "a": "tools: Read, Bash",
        "b": "tools: [view, bash]",
        "c": "tools:\n  - view\n  - bash",
        "d": "",
    }
    for name, tools in spelled.items():
        (tmp_path / "one" / f"{name}.md").write_text(head.format(name=name, tools=tools))
    (tmp_path / "two" / "a.md").write_text(head.format(name="a", tools="tools: ls"))
    found, wrong = agents.discover([tmp_path / "one", tmp_path / "two", tmp_path / "gone"])
    assert wrong == []
    assert found["a"].tools == frozenset({"ls"})
    assert found["b"].tools == found["c"].tools == frozenset({"view", "bash"})
    assert found["d"].tools is None


@pytest.mark.timeout(20)
def test_a_link_or_a_pipe_is_no_definition(tmp_path: Path) -> None:
    folder = tmp_path / ".claude/agents"
    folder.mkdir(parents=True)
    (tmp_path / "outside.md").write_text(REVIEWER)
    (folder / "link.md").symlink_to(tmp_path / "outside.md")
    os.mkfifo(folder / "pipe.md")
    found, wrong = agents.discover([folder])
    assert (found, len(wrong)) == ({}, 2)
    assert len(agents.project_files(tmp_path)) == 2


async def test_a_deleted_session_takes_the_choices_of_its_sub_agents_along(bench: Bench) -> None:
    await bench.write(lambda tx: sessions.create(tx, WORKSPACE, "below", "Child", parent=SESSION))
    for session in (SESSION, "below"):
        await bench.services.choices.change(session, ChoicesChange(budget=Budget(run=1)))
    await bench.runner.delete_session(SESSION)
    choices = bench.services.choices
    assert [choices.of(name) for name in (SESSION, "below")] == [
        SessionChoices(session_id=name) for name in (SESSION, "below")
    ]
