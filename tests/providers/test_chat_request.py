from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from tests.providers.conftest import ask

from bullpen.config.settings import ProviderSettings
from bullpen.providers import chat_request
from bullpen.providers.base import AssistantTurn, ModelRequest, ToolTurn, UserTurn
from bullpen.schema.agent import SelectedModel
from bullpen.schema.message import Binary, ToolCall, ToolResult

PICTURE = Binary(path="/w/a.png", mime_type="image/png", data=b"png")
URL = "data:image/png;base64," + base64.b64encode(b"png").decode()


def result(content: str = "ok", **facts: Any) -> ToolTurn:
    plain: dict[str, Any] = {"tool_call_id": "a", "name": "view", "metadata": "", "is_error": False}
    return ToolTurn(ToolResult(content=content, **(plain | facts)))


def body_of(request: ModelRequest, settings: ProviderSettings) -> dict[str, Any]:
    """The body as it is sent."""
    sent = msgspec.json.encode(chat_request.body_of(request, settings))
    assert msgspec.json.encode(chat_request.body_of(request, settings)) == sent, (
        "once more, from what was kept"
    )
    decoded: dict[str, Any] = msgspec.json.decode(sent)
    return decoded


def body(settings: dict[str, Any] | None = None, **facts: Any) -> dict[str, Any]:
    return body_of(ask(**facts), ProviderSettings(**({"id": "fake"} | (settings or {}))))


def messages_of(request: ModelRequest) -> Any:
    return body_of(request, ProviderSettings(id="fake"))["messages"]


def test_a_conversation_in_order() -> None:
    """Calls, results and answers are what hosts know."""
    calls = (ToolCall(id="a", name="ls", input='{"path": "."}', finished=True),)
    turns = (UserTurn("one"), AssistantTurn("", tool_calls=calls), result("files"), AssistantTurn("two"))
    assert messages_of(ask(system=("s", "t"), turns=turns)) == [
        {"role": "system", "content": "s"},
        {"role": "system", "content": "t"},
        {"role": "user", "content": "one"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "files"},
        {"role": "assistant", "content": "two"},
    ]


@pytest.mark.parametrize("broken", ["", "{", "[1]", "5", "nope"])
def test_broken_arguments_are_not_sent_back(broken: str) -> None:
    turn = AssistantTurn("", tool_calls=(ToolCall(id="a", name="ls", input=broken),))
    sent = messages_of(ask(system=(), turns=(turn,)))[0]
    assert sent["tool_calls"][0]["function"]["arguments"] == "{}"


def test_pictures_are_sent_as_data() -> None:
    content = messages_of(ask(system=(), turns=(UserTurn("look", (PICTURE,)),)))[0]["content"]
    assert content == [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": URL}}]


def test_files_no_host_takes_are_named() -> None:
    files = (Binary(path="/w/a.zip", mime_type="application/zip", data=b"z"),)
    content = messages_of(ask(system=(), turns=(UserTurn("look", files),)))[0]["content"]
    assert content[1] == {"type": "text", "text": "[a.zip, application/zip, cannot be shown to this model]"}


def test_pictures_in_results_follow_the_results() -> None:
    data = base64.b64encode(b"png").decode()
    turns = (result("", data=data, mime_type="image/png"), result("b"), AssistantTurn("seen"))
    sent = messages_of(ask(system=(), turns=turns))
    assert [m["role"] for m in sent] == ["tool", "tool", "user", "assistant"]
    assert sent[2]["content"][1]["image_url"]["url"] == URL


def test_reasoning_is_given_back_to_those_who_sent_it() -> None:
    turns = (AssistantTurn("a", reasoning="because"),)
    assert body(turns=turns)["messages"][1]["reasoning_content"] == "because"
    assert "reasoning_content" not in body({"type": "openai"}, turns=turns)["messages"][1]


@pytest.mark.parametrize("model", ["o3", "gpt-5.6-sol", "openai/gpt-5-mini", "gpt-oss-120b"])
def test_reasoning_models_take_other_parameters(model: str) -> None:
    sent = body_of(
        ask(model=model, max_tokens=9, settings=SelectedModel(temperature=0.5)), ProviderSettings(id="fake")
    )
    assert sent["max_completion_tokens"] == 9
    assert not {"max_tokens", "temperature"} & sent.keys()


def test_sampling_is_passed_on_when_chosen() -> None:
    chosen = SelectedModel(temperature=0.0, top_p=0.9)
    sent = body_of(ask(settings=chosen), ProviderSettings(id="fake"))
    assert (sent["temperature"], sent["top_p"]) == (0.0, 0.9)
    assert not {"temperature", "max_tokens", "tools"} & body().keys()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("openai-compat", {"reasoning_effort": "high"}), ("openrouter", {"reasoning": {"effort": "high"}})],
)
def test_effort(kind: str, expected: dict[str, Any]) -> None:
    settings = ProviderSettings(id="fake", type=kind)
    chosen = SelectedModel(reasoning_effort="high")
    assert expected.items() <= body_of(ask(settings=chosen, can_reason=True), settings).items()
    assert not expected.keys() & body_of(ask(settings=chosen), settings).keys()


def test_options_are_merged_and_cannot_take_over() -> None:
    """The model's options win over the provider's; messages and streaming are ours."""
    settings = ProviderSettings(
        id="fake",
        extra_body={"seed": 1, "thinking": {"type": "enabled", "budget": 5}, "stream": False},
        provider_options={"seed": 2, "messages": []},
    )
    chosen = SelectedModel(provider_options={"thinking": {"budget": 9}})
    sent = body_of(ask(settings=chosen), settings)
    assert (sent["seed"], sent["stream"]) == (2, True)
    assert sent["thinking"] == {"type": "enabled", "budget": 9}
    assert sent["messages"]
