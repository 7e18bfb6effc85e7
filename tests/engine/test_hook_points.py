"""Hooks around calls, turns, asks and prompts: real commands, and what becomes of what they say."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.engine.bench import SESSION, Answering, Bench, until
from tests.engine.test_hooks import says

from bullpen.config.shape import Hook, HookEvent
from bullpen.engine.hook_points import SENT_BACK_AT_MOST
from bullpen.engine.hooks import Hooks
from bullpen.errors import HookRefused
from bullpen.providers.base import ToolTurn, UserTurn
from bullpen.schema.api import NewPrompt, QuestionAnswer
from bullpen.schema.asks import QuestionResponse
from bullpen.schema.events import HookDecided
from bullpen.schema.message import ToolResult


def hook(bench: Bench, **entries: str | dict[str, Any]) -> None:
    """Give the workspace these hooks, by event."""
    found = {
        event: [msgspec.convert({"command": entry} if isinstance(entry, str) else entry, Hook)]
        for event, entry in entries.items()
    }
    processes = bench.agent.hooks._processes
    env = {"PATH": "/usr/bin:/bin"}
    bench.agent.hooks = Hooks(found, root=bench.root, env=env, processes=processes)


async def begun(bench: Bench, **more: Any) -> Answering:
    await bench.prompt("hello", run_id="r1", **more)
    return await bench.puppet.next()


async def called(bench: Bench, name: str, arguments: str = '{"name":"x"}') -> ToolResult:
    """Let the model make one call; gives back the result that it is sent."""
    step = await begun(bench)
    step.call("c1", name, arguments)
    step.finish(reason="tool_use")
    step = await bench.puppet.next()
    result = step.request.turns[-1]
    assert isinstance(result, ToolTurn)
    step.finish("done")
    await bench.watcher.run_complete("r1")
    return result.result


def told(bench: Bench, name: str) -> Any:
    return json.loads((bench.root / name).read_text())


async def written(bench: Bench, name: str) -> Any:
    """What a hook behind our back was told, once it has written it down."""
    await until((bench.root / name).exists)
    return told(bench, name)


def keep(name: str) -> str:
    """A hook that writes down what it is told, whole or not at all."""
    return f"cat > {name}.new; mv {name}.new {name}"


async def decided(bench: Bench, event: HookEvent) -> HookDecided:
    found: HookDecided = await bench.watcher.until("hook_decided", lambda p: p.event == event)
    return found


# Calls


async def test_a_hook_after_a_call_sees_the_result_and_may_add_to_it(bench: Bench) -> None:
    """What it adds stands behind the result, and people see that it did."""
    hook(bench, PostToolUse=f"{keep('told')}; {says(context='and mind the gap')}")
    result = await called(bench, "echo")
    assert told(bench, "told") == {
        "event": "PostToolUse",
        "session_id": SESSION,
        "cwd": str(bench.root),
        "tool_name": "echo",
        "tool_input": {"name": "x"},
        "tool_result": {"content": "x", "is_error": False},
    }
    assert (result.content, result.is_error) == ("x\nand mind the gap", False)
    assert json.loads(result.metadata)["hook_after"]["hook_count"] == 1


async def test_a_hook_after_a_call_may_put_it_in_other_words(bench: Bench) -> None:
    """For example without what is secret; nothing of the old words is left for display either."""
    hook(bench, PostToolUse=says(updated_output="***"))
    result = await called(bench, "echo", '{"name":"hunter2"}')
    assert result.content == "***"
    assert "hunter2" not in result.metadata


@pytest.mark.parametrize(
    "entry", ["echo not this >&2; exit 2", {"command": "exit 1", "fail_closed": True, "name": "not this"}]
)
async def test_a_hook_after_a_call_may_withhold_the_result(bench: Bench, entry: str | dict[str, Any]) -> None:
    """One that must not be missed does so by failing: nobody knows what it would have taken out."""
    hook(bench, PostToolUse=entry)
    result = await called(bench, "echo", '{"name":"hunter2"}')
    assert result.is_error
    assert result.content.startswith("The call was made, but a hook withholds its result: ")
    assert "not this" in result.content
    assert "hunter2" not in result.content + result.metadata


async def test_a_failed_call_is_seen_by_both_hooks(bench: Bench) -> None:
    """What hooks did is kept with the result, also when the tool failed."""
    hook(bench, PreToolUse=says(context="before"), PostToolUse=keep("told"))
    result = await called(bench, "fail", '{"name":"way"}')
    assert (result.content, result.is_error) == ("no way\nbefore", True)
    assert told(bench, "told")["tool_result"]["is_error"] is True
    assert set(json.loads(result.metadata)) == {"hook", "hook_after"}


async def test_the_call_as_it_was_made_is_shown(bench: Bench) -> None:
    """A hook that changes the call leaves what really ran in the result's metadata."""
    hook(bench, PreToolUse=says(updated_input={"name": "y"}))
    result = await called(bench, "echo")
    assert result.content == "y"
    assert json.loads(result.metadata)["hook"]["updated_input"] == {"name": "y"}


async def test_a_sub_agents_calls_are_hooked_too(bench: Bench) -> None:
    """What a model may not do it may not have done either."""
    hook(bench, PreToolUse={"command": "echo no >&2; exit 2", "matcher": "^echo$"})
    step = await begun(bench)
    step.call("c1", "send", '{"prompt":"task"}')
    step.finish(reason="tool_use")
    child = await bench.puppet.next()
    child.call("c2", "echo", '{"name":"x"}')
    child.finish(reason="tool_use")
    child = await bench.puppet.next()
    result = child.request.turns[-1]
    assert isinstance(result, ToolTurn)
    assert result.result.content == "A hook refused this call: no"
    child.finish("refused")
    (await bench.puppet.next()).finish("done")
    await bench.watcher.run_complete("r1")


async def test_a_hook_that_allows_a_call_spares_people_the_ask(bench: Bench) -> None:
    """Whatever the tool is: what it is allowed to do is decided in one place."""
    hook(bench, PreToolUse=says(decision="allow"))
    assert (await called(bench, "act")).content == "did x"
    assert not [e for e in bench.watcher.seen if e.kind == "permission_request"]


# Turns


async def test_a_hook_before_a_turn_may_add_what_the_model_should_know(bench: Bench) -> None:
    """For this turn, with the system prompt."""
    hook(bench, PreTurn=f"{keep('told')}; {says(context='The build is red.')}")
    step = await begun(bench)
    assert step.request.system[-1].endswith("The build is red.")
    facts = told(bench, "told")
    assert (facts["event"], facts["run_id"], facts["prompt"]) == ("PreTurn", "r1", "hello")
    assert (facts["model"], facts["provider"]) == ("puppet-1", "puppet")
    assert (await decided(bench, "PreTurn")).added
    step.finish("done")
    await bench.watcher.run_complete("r1")


@pytest.mark.parametrize("code", [2, 49])
async def test_a_hook_before_a_turn_may_refuse_it(bench: Bench, code: int) -> None:
    """The turn ends with the reason, and the model is never asked."""
    hook(bench, PreTurn=f"echo after hours >&2; exit {code}", PostTurn=keep("ended"))
    await bench.prompt("hello", run_id="r1")
    end = await bench.watcher.run_complete("r1")
    assert end.error == "a hook refused this turn: after hours"
    assert bench.puppet.asked.empty()
    assert (await written(bench, "ended"))["outcome"] == "failed"


async def test_a_hook_after_a_turn_may_send_the_model_back(bench: Bench) -> None:
    """Its reason is said in the room, and the turn ends once it is content."""
    hook(bench, PostTurn="test -e tests-pass && exit; echo the tests fail >&2; exit 2")
    step = await begun(bench)
    step.finish("all done")
    step = await bench.puppet.next()
    last = step.request.turns[-1]
    assert isinstance(last, UserTurn)
    assert last.text == "A hook does not let this turn end yet: the tests fail"
    (bench.root / "tests-pass").touch()
    step.finish("now really")
    assert (await bench.watcher.run_complete("r1")).text == "now really"
    spoken = [(m.role, m.author, m.text) for m in await bench.messages()]
    assert spoken[2] == ("user", "hook", "A hook does not let this turn end yet: the tests fail")


async def test_a_hook_that_is_never_content_gives_up(bench: Bench) -> None:
    """A turn ends all the same."""
    hook(bench, PostTurn="exit 2")
    step = await begun(bench)
    for _ in range(SENT_BACK_AT_MOST):
        step.finish("done")
        step = await bench.puppet.next()
    step.finish("enough")
    assert (await bench.watcher.run_complete("r1")).text == "enough"


async def test_a_hook_is_told_of_a_turn_that_was_cancelled(bench: Bench) -> None:
    """Behind everybody's back: the cancel does not wait for it."""
    hook(bench, PostTurn=keep("ended"))
    await begun(bench)
    await bench.runner.cancel(SESSION)
    facts = await written(bench, "ended")
    assert (facts["outcome"], facts["run_id"]) == ("cancelled", "r1")


# Asks


async def test_a_hook_may_answer_for_a_person(bench: Bench) -> None:
    """Nobody is asked, and everybody is told that a hook allowed it."""
    hook(bench, PreAsk=f"{keep('told')}; {says(decision='allow')}", PostAsk=keep("after"))
    result = await called(bench, "act")
    assert result.content == "did x"
    facts = told(bench, "told")
    assert (facts["kind"], facts["tool_name"], facts["tool_input"]) == ("permission", "act", {"name": "x"})
    assert not [e for e in bench.watcher.seen if e.kind == "permission_request"]
    assert [e.payload.decision for e in bench.watcher.seen if e.kind == "hook_decided"] == ["allow"]
    assert not (bench.root / "after").exists()


async def test_a_hook_may_refuse_before_a_person_is_asked(bench: Bench) -> None:
    """The model reads why."""
    hook(bench, PreAsk="echo never act >&2; exit 2")
    result = await called(bench, "act")
    assert (result.content, bench.gate.effects) == ("A hook refused this: never act", [])


async def test_a_hook_that_halts_an_ask_ends_the_turn(bench: Bench) -> None:
    hook(bench, PreAsk="echo stop >&2; exit 49")
    step = await begun(bench)
    step.call("c1", "act", '{"name":"x"}')
    step.finish(reason="tool_use")
    await bench.watcher.run_complete("r1")
    assert bench.puppet.asked.empty()


async def test_a_silent_hook_leaves_the_answer_to_people_and_is_told_of_it(bench: Bench) -> None:
    hook(bench, PreAsk={"command": "true", "fail_closed": True}, PostAsk=keep("after"))
    step = await begun(bench)
    step.call("c1", "act", '{"name":"x"}')
    step.finish(reason="tool_use")
    await bench.grant(await bench.watcher.until("permission_request"))
    (await bench.puppet.next()).finish("done")
    facts = await written(bench, "after")
    assert (facts["answer"], facts["tool_name"]) == ("granted", "act")
    await bench.watcher.run_complete("r1")


async def test_questions_are_asks_too(bench: Bench) -> None:
    """Under the name `question`: a hook may keep them from people, or learn what was answered."""
    hook(bench, PreAsk={"command": keep("told"), "matcher": "^question$"}, PostAsk=keep("after"))
    step = await begun(bench)
    step.call("c1", "wonder", '{"name":"why?"}')
    step.finish(reason="tool_use")
    batch = await bench.watcher.until("question_batch_request")
    response = QuestionResponse(request_id="q1", fill_in_text="because")
    answer = QuestionAnswer(batch_request_id=batch.id, responses=(response,))
    await bench.services.questions.answer(answer, "ana")
    (await bench.puppet.next()).finish("done")
    assert told(bench, "told")["questions"][0]["question"] == "why?"
    facts = await written(bench, "after")
    assert (facts["answer"], facts["responses"][0]["fill_in_text"]) == ("answered", "because")
    await bench.watcher.run_complete("r1")


async def test_a_hook_may_keep_questions_from_people(bench: Bench) -> None:
    hook(bench, PreAsk="echo decide yourself >&2; exit 2")
    assert (await called(bench, "wonder")).content == "A hook refused this: decide yourself"


# Prompts


def new_prompt(text: str) -> NewPrompt:
    return NewPrompt(session_id=SESSION, prompt=text)


async def test_a_hook_may_change_a_prompt_and_add_to_it(bench: Bench) -> None:
    """What it adds is an attachment that everybody sees."""
    hook(
        bench,
        PrePrompt=f"{keep('told')}; {says(updated_input={'prompt': 'hi there'}, context='It is late.')}",
    )
    points = bench.services.hook_points
    passed = await points.before_prompt(bench.agent.hooks, new_prompt("hi"), "ana")
    assert passed.prompt == "hi there"
    assert [(a.file_name, a.content) for a in passed.attachments] == [("hook context", b"It is late.")]
    facts = told(bench, "told")
    assert (facts["event"], facts["prompt"], facts["author"]) == ("PrePrompt", "hi", "ana")
    event = await decided(bench, "PrePrompt")
    assert (event.rewrote, event.added) == (True, True)


async def test_a_hook_may_refuse_a_prompt(bench: Bench) -> None:
    """Whoever sent it learns why; it is announced to the others."""
    hook(bench, PrePrompt={"command": "exit 3", "fail_closed": True, "name": "filter"})
    with pytest.raises(HookRefused, match="a hook refused this prompt: the hook 'filter' failed"):
        await bench.services.hook_points.before_prompt(bench.agent.hooks, new_prompt("hi"), "ana")
    event = await decided(bench, "PrePrompt")
    assert (event.decision, event.hooks[0].name, event.hooks[0].error) == (
        "deny",
        "filter",
        "failed with exit code 3",
    )


async def test_a_failure_that_is_passed_over_is_announced(bench: Bench) -> None:
    """A hook that does nothing because it is broken must not seem to be content."""
    hook(bench, PreTurn="exit 1")
    step = await begun(bench)
    assert (await decided(bench, "PreTurn")).hooks[0].error == "failed with exit code 1"
    step.finish("done")
    await bench.watcher.run_complete("r1")
