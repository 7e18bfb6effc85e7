from __future__ import annotations

import json
from typing import Any

import pytest
from tests.providers.conftest import TOOL, FakeHost, ask, collect, done
from tests.providers.conftest import say as chat
from tests.providers.vendors import KEY, speak
from tests.providers.wires import Call, Part, ResponsesWire, Think, say

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers.base import ReasoningDelta, StepDone, TextDelta, ToolCallDone, Usage
from bullpen.providers.http import ModelClient
from bullpen.providers.openai_responses import OpenAI, reasons, speaks_responses
from bullpen.schema.agent import SelectedModel

WIRE = ResponsesWire()


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def model(host: FakeHost, http: ModelClient) -> OpenAI:
    settings = ProviderSettings(id="openai", type="openai", base_url=host.url + "/v1", api_key=KEY)
    return OpenAI(settings, http)


def says(*parts: Part, **facts: Any) -> Any:
    return lambda exchange: speak(exchange, WIRE, WIRE.answer(*parts, **facts))


@pytest.mark.parametrize(
    ("name", "by_responses", "thinks"),
    [
        ("gpt-5.6-sol", True, True),
        ("gpt-5-codex", True, True),
        ("gpt-6", True, True),
        ("gpt-10-turbo", True, True),
        ("o3", True, True),
        ("o4-mini", True, True),
        ("codex-mini-latest", True, True),
        ("openai/gpt-5.6", True, True),
        ("gpt-5-chat-latest", True, False),
        ("gpt-4o", True, False),
        ("gpt-4.1-mini", True, False),
        ("ft:gpt-4o:us", True, False),
        ("gpt-4o-audio-preview", False, False),
        ("gpt-4o-search-preview", False, False),
        ("gpt-3.5-turbo", False, False),
        ("gpt-oss-120b", False, False),
        ("my-own-model", False, False),
    ],
)
def test_the_table(name: str, by_responses: bool, thinks: bool) -> None:
    assert (speaks_responses(name), reasons(name)) == (by_responses, thinks)


def test_the_config_may_say_that_a_model_reasons() -> None:
    """But the generations before never do, whatever a catalogue claims."""
    assert reasons("my-own-model", can_reason=True)
    assert not reasons("gpt-4o", can_reason=True)


async def test_what_a_reasoning_model_is_sent(host: FakeHost, model: OpenAI) -> None:
    host.will(says(say("hi")))
    settings = SelectedModel(reasoning_effort="xhigh", temperature=0.5)
    await collect(
        model.stream(
            ask(model="gpt-5.6-sol", can_reason=True, settings=settings, tools=(TOOL,), max_tokens=50)
        )
    )
    seen = host.exchanges[0]
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["user-agent"].startswith("bullpen/")
    assert seen.json.pop("prompt_cache_key")
    assert {k: v for k, v in seen.json.items() if k not in ("prompt_cache_key", "tools")} == {
        "model": "gpt-5.6-sol",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be kind.",
        "input": [{"role": "user", "content": "hello"}],
        "max_output_tokens": 50,
        "reasoning": {"context": "all_turns", "effort": "xhigh", "summary": "auto"},
        "tool_choice": "auto",
    }
    assert seen.json["tools"][0]["strict"] is False


async def test_models_that_do_not_reason_are_asked_for_no_reasoning(host: FakeHost, model: OpenAI) -> None:
    """Even if the catalogue says so."""
    host.will(says(say("hi")))
    settings = SelectedModel(reasoning_effort="high", temperature=0.5)
    await collect(model.stream(ask(model="gpt-4o", can_reason=True, settings=settings)))
    sent = host.exchanges[0].json
    assert "include" not in sent
    assert "reasoning" not in sent
    assert (sent["store"], sent["temperature"]) == (False, 0.5)


@pytest.mark.parametrize(
    ("name", "options", "target"),
    [
        ("gpt-5.6", {}, "/v1/responses"),
        ("gpt-3.5-turbo", {}, "/v1/chat/completions"),
        ("gpt-5.6", {"api": "chat"}, "/v1/chat/completions"),
        ("my-own-model", {"api": "responses"}, "/v1/responses"),
    ],
)
@pytest.mark.parametrize("of_the_model", [False, True])
async def test_the_interface_can_be_chosen(
    host: FakeHost, http: ModelClient, name: str, options: dict[str, str], target: str, of_the_model: bool
) -> None:
    """By the provider's options or the model's; the host never sees the word."""
    if target.endswith("responses"):
        host.will(says(say("hi")))
    else:
        host.will(lambda exchange: exchange.stream(chat("hi"), done()))
    settings = ProviderSettings(
        id="x",
        type="openai",
        base_url=host.url + "/v1",
        provider_options={} if of_the_model else {**options, "seed": 7},
    )
    chosen = SelectedModel(provider_options={**options, "seed": 7} if of_the_model else {})
    events = await collect(OpenAI(settings, http).stream(ask(model=name, settings=chosen)))
    assert events[0] == TextDelta("hi")
    assert host.exchanges[0].target == f"POST {target} HTTP/1.1"
    assert host.exchanges[0].json["seed"] == 7
    assert "api" not in host.exchanges[0].json


async def test_several_thoughts_and_messages_are_paragraphs(host: FakeHost, model: OpenAI) -> None:
    """And go back as the items that they were."""
    host.will(says(Think("one", "E1"), Think("two", "E2"), say("First."), say("Second.")), says(say("done")))
    events = await collect(model.stream(ask(model="gpt-5.6")))
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == "one\n\ntwo"
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "First.\n\nSecond."


async def test_calls_whose_arguments_interleave(host: FakeHost, model: OpenAI) -> None:
    """The end of a part is not the end of its arguments."""
    whole = WIRE.answer(Call("a", "ls", {"path": "a"}), Call("b", "ls", {"path": "b"}))
    # Both begin, then the second halves come in the other order.
    order = [0, 1, 5, 2, 6, 7, 3, 4, 8, 9]
    host.will(lambda exchange: speak(exchange, WIRE, [whole[n] for n in order]))
    events = await collect(model.stream(ask(model="gpt-5.6", tools=(TOOL,))))
    calls = [(e.id, json.loads(e.input)["path"]) for e in events if isinstance(e, ToolCallDone)]
    assert calls == [("a", "a"), ("b", "b")]


@pytest.mark.parametrize(
    ("code", "retryable"),
    [("rate_limit_exceeded", True), ("server_error", True), ("invalid_prompt", False)],
)
async def test_a_failure_in_the_middle(host: FakeHost, model: OpenAI, code: str, retryable: bool) -> None:
    host.will(lambda exchange: speak(exchange, WIRE, WIRE.failure(code, "it did not work")))
    with pytest.raises(ProviderError) as caught:
        await collect(model.stream(ask(model="gpt-5.6")))
    assert (caught.value.details, caught.value.retryable) == ("it did not work", retryable)


async def test_a_host_without_a_key(host: FakeHost, http: ModelClient) -> None:
    host.will(says(say("hi"), cached=25))
    settings = ProviderSettings(id="local", type="openai", base_url=host.url + "/v1")
    events = await collect(OpenAI(settings, http).stream(ask(model="gpt-5.6")))
    assert events[-1] == StepDone("end_turn", Usage(input=75, cache_read=25, output=10))
