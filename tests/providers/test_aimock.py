"""Whole conversations with a mock of the vendors that was written by others (npm: @copilotkit/aimock).

Our own fakes say what we think a vendor says; this one says what somebody else does. Bedrock and Vertex are not here: its
frames of Bedrock are not what Amazon's package takes, and it gives out no tokens of Google's.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from tests.node import program
from tests.providers.conftest import TOOL, ask, collect, said

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers import registry
from bullpen.providers.base import (
    AssistantTurn,
    Provider,
    ReasoningDelta,
    StepDone,
    TextDelta,
    ToolCallDone,
    ToolTurn,
    UserTurn,
)
from bullpen.providers.http import ModelClient
from bullpen.schema.message import ToolCall, ToolResult

pytestmark = pytest.mark.timeout(120)


class Vendor(NamedTuple):
    kind: str
    model: str
    path: str = "/v1"


VENDORS = [
    Vendor("openai-compat", "llama-4"),
    Vendor("openai", "gpt-5.6-sol"),
    Vendor("anthropic", "claude-sonnet-4-6", ""),
    Vendor("google", "gemini-3.1-pro-preview", "/v1beta"),
    Vendor("azure", "gpt-5.6", ""),
    Vendor("openrouter", "openai/gpt-5.6", "/api/v1"),
    Vendor("ollama", "qwen3"),
]

GREETING = "Grüß dich! " * 20 + "🦉"

FIXTURES = [
    {
        "match": {"userMessage": "greet"},
        "response": {
            "content": GREETING,
            "usage": {
                "prompt_tokens": 11,
                "completion_tokens": 22,
            },
        },
    },
    {"match": {"userMessage": "think"}, "response": {"content": "42", "reasoning": "six times seven"}},
    {"match": {"userMessage": "weather", "hasToolResult": True}, "response": {"content": "Take a coat."}},
    {
        "match": {"userMessage": "weather"},
        "response": {"toolCalls": [{"name": TOOL.name, "arguments": {"path": "Århus"}}]},
    },
]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address."""
    fixtures = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": FIXTURES}))
    command = [*program("@copilotkit/aimock", "llmock"), "-p", "0", "-f", str(fixtures), "--strict"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        lines = (line for line in process.stdout if "listening on " in line)
        yield next(lines).partition("listening on ")[2].strip()
        process.terminate()


@pytest.fixture(params=VENDORS, ids=lambda vendor: vendor.kind)
def vendor(request: pytest.FixtureRequest) -> Vendor:
    chosen: Vendor = request.param
    return chosen


@pytest.fixture
def model(mock: str, vendor: Vendor, http: ModelClient) -> Provider:
    """Each test has its own name with the mock, so that one test's chaos is not another's."""
    settings = ProviderSettings(
        id="mock",
        type=vendor.kind,
        base_url=mock + vendor.path,
        api_key="sk-test-key-0123456789",
        extra_headers={"X-Test-Id": vendor.kind},
    )
    return registry.build(settings, http)


async def test_an_answer(model: Provider, vendor: Vendor) -> None:
    events = await collect(model.stream(ask("greet me", model=vendor.model)))
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert text == GREETING
    assert sum(isinstance(event, TextDelta) for event in events) > 3
    done = events[-1]
    assert isinstance(done, StepDone)
    assert (done.reason, done.usage.input, done.usage.output) == ("end_turn", 11, 22)


async def test_thoughts_are_told_from_words(model: Provider, vendor: Vendor) -> None:
    events = await collect(model.stream(ask("think", model=vendor.model, can_reason=True)))
    thoughts = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert (thoughts, text) == ("six times seven", "42")


# A reason that Google itself does not give.
@pytest.mark.filterwarnings("ignore:FUNCTION_CALL is not a valid FinishReason")
async def test_a_tool_is_called_and_its_result_heard(model: Provider, vendor: Vendor) -> None:
    first = ask("weather", model=vendor.model, tools=(TOOL,))
    events = await collect(model.stream(first))
    [call] = [event for event in events if isinstance(event, ToolCallDone)]
    done = events[-1]
    assert isinstance(done, StepDone)
    assert (call.name, json.loads(call.input), done.reason) == (TOOL.name, {"path": "Århus"}, "tool_use")
    spoken = AssistantTurn(
        "",
        tool_calls=(ToolCall(id=call.id, name=call.name, input=call.input, finished=True),),
        native=done.native,
    )
    result = ToolTurn(
        ToolResult(tool_call_id=call.id, name=call.name, content="rain", metadata="", is_error=False)
    )
    turns = (UserTurn("weather"), spoken, result)
    assert await said(model.stream(ask(model=vendor.model, tools=(TOOL,), turns=turns))) == "Take a coat."


@pytest.mark.parametrize(
    ("chaos", "status"),
    [("rateLimitRate", 429), ("dropRate", 500), ("malformedRate", 0), ("disconnectRate", 0)],
)
async def test_chaos_is_an_error_that_may_be_tried_again(
    mock: str, model: Provider, vendor: Vendor, chaos: str, status: int
) -> None:
    name = {"X-Test-Id": vendor.kind}
    async with httpx.AsyncClient(base_url=mock, headers=name) as control:
        (await control.post("/__aimock/chaos", json={chaos: 1})).raise_for_status()
        try:
            with pytest.raises(ProviderError) as caught:
                await collect(model.stream(ask("greet me", model=vendor.model)))
        finally:
            (await control.delete("/__aimock/chaos")).raise_for_status()
    assert caught.value.status == status
    assert await said(model.stream(ask("greet me", model=vendor.model))) == GREETING
