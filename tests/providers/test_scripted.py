from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.providers.conftest import ask, collect

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ConfigError, ProviderError
from bullpen.providers.base import (
    AssistantTurn,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    ReasoningDone,
    StepDone,
    TextDelta,
    ToolCallDone,
    ToolCallStarted,
    Turn,
    Usage,
    UserTurn,
)
from bullpen.providers.scripted import Scripted


def scripted(*steps: dict[str, Any]) -> Scripted:
    return Scripted(ProviderSettings(id="s", type="scripted", provider_options={"script": list(steps)}))


def after(*turns: Turn) -> ModelRequest:
    return ask(turns=turns)


async def said(model: Scripted, request: ModelRequest) -> str:
    return "".join(e.text for e in await collect(model.stream(request)) if isinstance(e, TextDelta))


async def test_a_whole_step() -> None:
    """Thinking, words, calls and counts, in that order."""
    step = {
        "think": "hm ok",
        "say": "I look. ",
        "calls": [{"name": "ls", "input": {"path": "."}, "id": "a"}],
        "usage": {"input": 3, "output": 4},
    }
    expected: list[ModelEvent] = [
        ReasoningDelta("hm "),
        ReasoningDelta("ok"),
        ReasoningDone(),
        TextDelta("I "),
        TextDelta("look. "),
        ToolCallStarted("a", "ls"),
        ToolCallDone("a", "ls", '{"path":"."}'),
        StepDone("tool_use", Usage(input=3, output=4)),
    ]
    assert await collect(scripted(step).stream(ask())) == expected


async def test_the_conversation_says_which_step_is_next() -> None:
    model = scripted({"say": "one"}, {"say": "two"})
    assert await said(model, ask()) == "one"
    assert await said(model, ask()) == "one"
    assert await said(model, after(UserTurn("a"), AssistantTurn("one"), UserTurn("b"))) == "two"
    over = after(UserTurn("a"), AssistantTurn("one"), UserTurn("b"), AssistantTurn("two"), UserTurn("c"))
    assert await said(model, over) == "The script is over."


async def test_a_message_can_choose_its_own_line() -> None:
    """And the main line goes on afterwards where it was."""
    model = scripted(
        {"say": "one"}, {"say": "two"}, {"when": "build", "say": "b1"}, {"when": "build", "say": "b2"}
    )
    first = (UserTurn("hi"), AssistantTurn("one"), UserTurn("please build it"))
    assert await said(model, after(*first)) == "b1"
    assert await said(model, after(*first, AssistantTurn("b1"))) == "b2"
    assert await said(model, after(*first, AssistantTurn("b1"), UserTurn("go on"))) == "two"


async def test_titles_and_summaries_need_no_script() -> None:
    model = scripted({"purpose": "summary", "say": "in short"}, {"say": "one"})
    assert (
        await said(model, ask("mend the broken fence today please now", purpose="title"))
        == "mend the broken fence today please"
    )
    assert await said(model, ask(purpose="summary")) == "in short"
    assert await said(model, ask()) == "one"


async def test_a_step_can_fail_and_then_succeed() -> None:
    model = scripted({"say": "x", "fail": {"status": 429, "retry_after_s": 2, "times": 1}})
    with pytest.raises(ProviderError) as caught:
        await collect(model.stream(ask()))
    assert (caught.value.retryable, caught.value.retry_after_s) == (True, 2)
    assert await said(model, ask()) == "x"


async def test_a_step_can_hang_and_be_left() -> None:
    seen: list[ModelEvent] = []
    with anyio.move_on_after(0.1) as scope:
        async for event in scripted({"say": "half", "hang": True}).stream(ask()):
            seen.append(event)  # noqa: PERF401
    assert scope.cancelled_caught
    assert seen == [TextDelta("half")]


def test_a_script_that_cannot_be_played() -> None:
    with pytest.raises(ConfigError, match="script is not valid"):
        scripted({"says": "typo"})
