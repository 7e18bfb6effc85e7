from __future__ import annotations

from typing import Any

import pytest
from tests.providers.conftest import TOOL, FakeHost, ask, collect
from tests.providers.vendors import KEY, speak
from tests.providers.wires import Call, GoogleWire, Part, say, sse

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers.base import StepDone, ToolCallDone, ToolCallStarted
from bullpen.providers.gemini import Gemini
from bullpen.providers.http import ModelClient
from bullpen.schema.agent import SelectedModel

WIRE = GoogleWire()


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def model(host: FakeHost, http: ModelClient) -> Gemini:
    return Gemini(ProviderSettings(id="gemini", type="google", base_url=host.url, api_key=KEY), http)


def says(*parts: Part, **facts: Any) -> Any:
    return lambda exchange: speak(exchange, WIRE, WIRE.answer(*parts, **facts))


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("gemini-3.1-pro-preview", SelectedModel(), {"include_thoughts": True}),
        (
            "gemini-3.1-pro-preview",
            SelectedModel(reasoning_effort="low"),
            {"include_thoughts": True, "thinking_level": "LOW"},
        ),
        (
            "gemini-3.1-pro-preview",
            SelectedModel(reasoning_effort="xhigh"),
            {"include_thoughts": True, "thinking_level": "HIGH"},
        ),
        ("gemini-2.5-flash", SelectedModel(), {"include_thoughts": True}),
        ("gemini-2.5-flash", SelectedModel(think=False), {"thinking_budget": 0}),
    ],
)
async def test_thinking(
    host: FakeHost, model: Gemini, name: str, settings: SelectedModel, expected: dict[str, Any]
) -> None:
    host.will(says(say("hi")))
    await collect(model.stream(ask(model=name, can_reason=True, settings=settings)))
    assert host.exchanges[0].json["generationConfig"]["thinkingConfig"] == expected


async def test_a_budget_goes_with_the_effort(host: FakeHost, model: Gemini) -> None:
    """The second generation counts tokens."""
    host.will(says(say("hi")))
    settings = SelectedModel(reasoning_effort="high")
    await collect(model.stream(ask(model="gemini-2.5-pro", can_reason=True, settings=settings)))
    sent = host.exchanges[0].json["generationConfig"]["thinkingConfig"]
    assert (sent["include_thoughts"], sent["thinking_budget"] > 2000) == (True, True)


async def test_what_the_host_is_sent(host: FakeHost, model: Gemini) -> None:
    host.will(says(say("hi")))
    settings = SelectedModel(temperature=0.5, top_k=3)
    await collect(model.stream(ask(model="gemini-3-flash-preview", settings=settings, tools=(TOOL,))))
    seen = host.exchanges[0]
    assert seen.headers["x-goog-api-key"] == KEY
    assert seen.json["systemInstruction"]["parts"] == [{"text": "Be kind."}]
    assert seen.json["contents"] == [{"role": "user", "parts": [{"text": "hello"}]}]
    assert (seen.json["generationConfig"]["temperature"], seen.json["generationConfig"]["topK"]) == (0.5, 3)
    assert seen.json["tools"][0]["functionDeclarations"][0]["name"] == "ls"


@pytest.mark.parametrize(
    ("path", "options", "version"),
    [
        ("", {}, "v1beta"),
        ("/v1beta", {}, "v1beta"),
        ("/v1/", {}, "v1"),
        ("/gateway/v1alpha", {}, "v1alpha"),
        ("", {"api_version": "v1"}, "v1"),
    ],
)
async def test_addresses(
    host: FakeHost, http: ModelClient, path: str, options: dict[str, str], version: str
) -> None:
    host.will(says(say("hi")))
    settings = ProviderSettings(
        id="g", type="google", base_url=host.url + path, api_key=KEY, provider_options=options
    )
    await collect(Gemini(settings, http).stream(ask(model="gemini-3-flash-preview")))
    before = "/gateway" if "gateway" in path else ""
    assert host.exchanges[0].target.startswith(f"POST {before}/{version}/models/gemini-3-flash-preview:")
    assert "api_version" not in host.exchanges[0].json


async def test_calls_without_ids_are_told_apart(host: FakeHost, model: Gemini) -> None:
    host.will(says(Call("", "ls", {"path": "a"}), Call("", "ls", {"path": "b"})))
    events = await collect(model.stream(ask(model="gemini-3-flash-preview", tools=(TOOL,))))
    begun = [event.id for event in events if isinstance(event, ToolCallStarted)]
    complete = [event.id for event in events if isinstance(event, ToolCallDone)]
    assert begun == complete
    assert len(set(begun)) == 2


async def test_the_wait_may_be_in_the_body(host: FakeHost, model: Gemini) -> None:
    """Google says it there, not in a header."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    error = {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED", "details": [{}, info]}
    host.will(lambda exchange: exchange.plain(429, {"error": error}))
    with pytest.raises(ProviderError) as caught:
        await collect(model.stream(ask(model="gemini-3-flash-preview")))
    assert (caught.value.retry_after_s, caught.value.retryable) == (34.5, True)


async def test_a_blocked_prompt(host: FakeHost, model: Gemini) -> None:
    host.will(lambda exchange: speak(exchange, WIRE, [sse({"promptFeedback": {"blockReason": "SAFETY"}})]))
    (last,) = await collect(model.stream(ask(model="gemini-3-flash-preview")))
    assert isinstance(last, StepDone)
    assert last.reason == "content_filter"


async def test_a_call_that_the_model_spoiled_may_be_tried_again(host: FakeHost, model: Gemini) -> None:
    host.will(says(say("hm"), finish="MALFORMED_FUNCTION_CALL"))
    with pytest.raises(ProviderError) as caught:
        await collect(model.stream(ask(model="gemini-3-flash-preview", tools=(TOOL,))))
    assert (caught.value.retryable, "MALFORMED_FUNCTION_CALL" in caught.value.details) == (True, True)


async def test_a_wrong_key(host: FakeHost, model: Gemini) -> None:
    error = {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}
    error |= {"details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}
    host.will(lambda exchange: exchange.plain(400, {"error": error}))
    with pytest.raises(ProviderError) as caught:
        await collect(model.stream(ask(model="gemini-3-flash-preview")))
    assert caught.value.details == "API key not valid; check the credentials of provider 'gemini'"
    assert (caught.value.kind, caught.value.retryable) == ("auth", False)
