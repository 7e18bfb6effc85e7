from __future__ import annotations

from typing import Any

import pytest
from tests.providers.conftest import TOOL, FakeHost, ask, call, collect, delta, done
from tests.providers.conftest import say as chat
from tests.providers.vendors import KEY, speak
from tests.providers.wires import ResponsesWire, say

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers.azure import Azure, Endpoint, endpoint_of
from bullpen.providers.base import StepDone, TextDelta, ToolCallDone, ToolCallStarted, Usage
from bullpen.providers.http import ModelClient
from bullpen.schema.agent import SelectedModel

WIRE = ResponsesWire()


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


def azure(host: FakeHost, http: ModelClient, **facts: Any) -> Azure:
    plain = {"id": "azure", "type": "azure", "base_url": host.url, "api_key": KEY}
    return Azure(ProviderSettings(**(plain | facts)), http)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mine", ("https://mine.openai.azure.com", "")),
        ("mine.openai.azure.com", ("https://mine.openai.azure.com", "")),
        ("https://mine.openai.azure.com/", ("https://mine.openai.azure.com", "")),
        ("https://mine.openai.azure.com/openai", ("https://mine.openai.azure.com", "")),
        ("https://mine.openai.azure.com/openai/v1/", ("https://mine.openai.azure.com", "")),
        ("https://mine.cognitiveservices.azure.com/", ("https://mine.cognitiveservices.azure.com", "")),
        ("https://mine.services.ai.azure.com/models", ("https://mine.services.ai.azure.com", "")),
        ("https://mine.services.ai.azure.com/api/projects/p", ("https://mine.services.ai.azure.com", "")),
        (
            "https://mine.openai.azure.com/openai/deployments/d/chat/completions?api-version=2025-01-01-preview",
            ("https://mine.openai.azure.com", "2025-01-01-preview"),
        ),
        (
            "https://mine.openai.azure.com/openai/responses?api-version=preview",
            ("https://mine.openai.azure.com", "preview"),
        ),
        ("https://gateway.corp/team/openai/v1", ("https://gateway.corp/team", "")),
        ("http://localhost:4000", ("http://localhost:4000", "")),
    ],
)
def test_addresses(text: str, expected: tuple[str, str]) -> None:
    assert endpoint_of(text) == Endpoint(*expected)


@pytest.mark.parametrize(
    ("facts", "target"),
    [
        ({}, "/openai/v1/responses"),
        ({"provider_options": {"api_version": "preview"}}, "/openai/v1/responses?api-version=preview"),
        (
            {"environment": {"AZURE_OPENAI_API_VERSION": "2025-04-01-preview"}},
            "/openai/responses?api-version=2025-04-01-preview",
        ),
        (
            {
                "environment": {"AZURE_OPENAI_API_VERSION": "2025-04-01-preview"},
                "provider_options": {"api_version": "2025-05-01"},
            },
            "/openai/responses?api-version=2025-05-01",
        ),
    ],
)
async def test_the_api_version_is_honoured(
    host: FakeHost, http: ModelClient, facts: dict[str, Any], target: str
) -> None:
    host.will(lambda exchange: speak(exchange, WIRE, WIRE.answer(say("hi"))))
    await collect(azure(host, http, **facts).stream(ask(model="gpt-5.6")))
    seen = host.exchanges[0]
    assert seen.target == f"POST {target} HTTP/1.1"
    assert seen.headers["api-key"] == KEY
    assert "api_version" not in seen.json


async def test_an_older_version_in_the_address(host: FakeHost, http: ModelClient) -> None:
    """The address as a page of Azure shows it, for a model that speaks chat completions."""
    host.will(lambda exchange: exchange.stream(chat("hi"), done()))
    url = f"{host.url}/openai/deployments/d/chat/completions?api-version=2024-10-21"
    await collect(azure(host, http, base_url=url).stream(ask(model="phi-4")))
    seen = host.exchanges[0].target
    assert seen == "POST /openai/deployments/phi-4/chat/completions?api-version=2024-10-21 HTTP/1.1"


async def test_chat_completions(host: FakeHost, http: ModelClient) -> None:
    """Deployments have names of their own, so the interface can be said."""
    pieces = [
        chat("I ", "look."),
        call(0, call_id="c", name="ls"),
        call(0, '{"path": "x"}'),
        done("tool_calls"),
    ]
    host.will(lambda exchange: exchange.stream(*pieces))
    model = azure(host, http, provider_options={"api": "chat", "seed": 7})
    settings = SelectedModel(reasoning_effort="low")
    events = await collect(
        model.stream(ask(model="gpt-5-team", can_reason=True, settings=settings, tools=(TOOL,), max_tokens=9))
    )
    assert events == [
        TextDelta("I "),
        TextDelta("look."),
        ToolCallStarted("c", "ls"),
        ToolCallDone("c", "ls", '{"path": "x"}'),
        StepDone("tool_use", Usage(input=100, output=10)),
    ]
    sent = host.exchanges[0]
    assert sent.target == "POST /openai/v1/chat/completions HTTP/1.1"
    assert (sent.json["reasoning_effort"], sent.json["seed"], sent.json["max_completion_tokens"]) == (
        "low",
        7,
        9,
    )
    assert "api" not in sent.json


async def test_a_chat_that_just_ends_has_failed(host: FakeHost, http: ModelClient) -> None:
    """The library makes up a finish reason here; the wire had none."""
    host.will(lambda exchange: exchange.stream(chat("I "), delta({"content": "lo"})))
    model = azure(host, http, provider_options={"api": "chat"})
    with pytest.raises(ProviderError, match="without a finish reason"):
        await collect(model.stream(ask(model="gpt-5-team")))
