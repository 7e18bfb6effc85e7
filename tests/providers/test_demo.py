from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.providers.conftest import ask, collect

from bullpen.config.settings import ProviderSettings
from bullpen.providers.base import (
    AssistantTurn,
    ModelRequest,
    ReasoningDelta,
    StepDone,
    TextDelta,
    ToolCallDone,
    ToolSpec,
    ToolTurn,
    Turn,
    UserTurn,
)
from bullpen.providers.demo import NOTE, Demo
from bullpen.schema.message import ToolCall, ToolResult

TOOLS = ("ls", "view", "write", "bash", "question")
TREE = "- /w/\n  - .env\n  - README.md\n  - src/\n    - deep.md\n  - main.py"


class Tour:
    """A session with the tour in which the tools answer what they are told to."""

    def __init__(self, tools: tuple[str, ...] = TOOLS) -> None:
        self.model = Demo(ProviderSettings(id="demo", provider_options={"pace_ms": 0}))
        self.tools = tuple(ToolSpec(name, "", {}) for name in tools)
        self.turns: list[Turn] = []

    async def step(self) -> tuple[str, ToolCallDone | None]:
        request: ModelRequest = ask(turns=tuple(self.turns), tools=self.tools)
        events = await collect(self.model.stream(request))
        text = "".join(e.text for e in events if isinstance(e, TextDelta))
        call = next((e for e in events if isinstance(e, ToolCallDone)), None)
        assert isinstance(events[-1], StepDone)
        assert events[-1].reason == ("tool_use" if call else "end_turn")
        calls = (ToolCall(id=call.id, name=call.name, input=call.input),) if call else ()
        self.turns.append(AssistantTurn(text, tool_calls=calls))
        return text, call

    async def play(self, prompt: str, **results: str | Exception) -> list[tuple[str, Any]]:
        """The tools that were called with what input, until the tour is silent."""
        self.turns.append(UserTurn(prompt))
        called: list[tuple[str, Any]] = []
        while True:
            self.text, call = await self.step()
            if call is None:
                return called
            called.append((call.name, msgspec.json.decode(call.input)))
            result = results.get(call.name, "")
            answer = ToolResult(
                tool_call_id=call.id,
                name=call.name,
                content=str(result),
                metadata="",
                is_error=isinstance(result, Exception),
            )
            self.turns.append(ToolTurn(answer))


async def test_the_tour_lists_reads_and_offers_to_write() -> None:
    tour = Tour()
    called = await tour.play("hello", ls=TREE, view="<file>\n     1|# Fence\n</file>", write="ok")
    assert [name for name, _ in called] == ["ls", "view", "write"]
    assert called[1][1]["file_path"] == "README.md"
    assert called[2][1]["file_path"] == NOTE
    assert "bullpen attach" in tour.text
    assert any(isinstance(t, AssistantTurn) and "# Fence" in t.text for t in tour.turns)


async def test_an_empty_directory_and_a_refusal_end_well() -> None:
    tour = Tour()
    called = await tour.play("hello", ls="- /w/\n  (empty)", write=PermissionError("User denied permission"))
    assert [name for name, _ in called] == ["ls", "write"]
    assert "Nothing was written" in tour.text


async def test_a_note_that_is_there_is_left_alone() -> None:
    called = await Tour().play("hello", ls=f"- /w/\n  - {NOTE}", view="     1|x")
    assert [name for name, _ in called] == ["ls", "view"]


async def test_the_tour_goes_without_tools() -> None:
    tour = Tour(tools=())
    assert await tour.play("hello") == []
    assert "bullpen attach" in tour.text
    await tour.play("write something")
    assert "switched off" in tour.text


@pytest.mark.parametrize(
    ("prompt", "tools", "text"),
    [
        ("list the files", ["ls"], "files lie at the top"),
        ("read src/deep.md", ["view"], "cannot be read"),
        ("read", [], "for example"),
        ("write a note", ["write"], "is there now"),
        ("run something", ["bash"], "printed"),
        ("ask me a question", ["question"], "Thank you"),
        ("how do others attach?", [], "second terminal"),
        ("which model is this", [], "OPENAI_API_KEY"),
        ("count for me", [], "18 19 20"),
        ("mend my code", [], "Say one of these words"),
        ("the tour again", ["ls", "write"], "Say one of these words"),
    ],
)
async def test_it_reacts_to_a_few_words(prompt: str, tools: list[str], text: str) -> None:
    tour = Tour()
    await tour.play("hello", ls=TREE)
    called = await tour.play(prompt, view=OSError("no"))
    assert [name for name, _ in called] == tools
    assert text in tour.text


async def test_it_thinks_aloud() -> None:
    tour = Tour()
    request = ask(turns=(UserTurn("a"), AssistantTurn("b"), UserTurn("think about it")))
    assert any(isinstance(e, ReasoningDelta) for e in await collect(tour.model.stream(request)))


@pytest.mark.parametrize("purpose", ["title", "summary"])
async def test_titles_and_summaries(purpose: str) -> None:
    events = await collect(Tour().model.stream(ask(purpose=purpose)))
    assert any(isinstance(e, TextDelta) for e in events)
