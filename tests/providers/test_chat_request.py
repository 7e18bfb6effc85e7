from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from tests.providers.conftest import TOOL, ask

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


def body(provider: dict[str, Any] | None = None, /, **facts: Any) -> dict[str, Any]:
    return body_of(ask(**facts), ProviderSettings(**({"id": "fake"} | (provider or {}))))


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


@pytest.mark.parametrize("model", ["gpt-4.1", "gpt-4o", "openai/gpt-4-turbo", "o1x", "phi-o3", "solo3"])
def test_models_that_do_not_reason_keep_their_parameters(model: str) -> None:
    sent = body(model=model, max_tokens=9, settings=SelectedModel(temperature=0.5))
    assert (sent["max_tokens"], sent["temperature"]) == (9, 0.5)


def test_sampling_is_passed_on_when_chosen() -> None:
    chosen = SelectedModel(temperature=0.0, top_p=0.9)
    sent = body_of(ask(settings=chosen), ProviderSettings(id="fake"))
    assert (sent["temperature"], sent["top_p"]) == (0.0, 0.9)
    assert not {"temperature", "max_tokens", "tools"} & body().keys()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("openai-compat", {"reasoning_effort": "high"}),
        ("openrouter", {"reasoning": {"enabled": True, "effort": "high"}}),
        ("vercel", {"reasoning": {"enabled": True, "effort": "high"}}),
    ],
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


def switch(kind: str) -> dict[str, Any]:
    return {"thinking": {"type": kind}}


HIGH = {"reasoning_effort": "high"}
ON, OFF = {"think": True}, {"think": False}


@pytest.mark.parametrize(
    ("provider", "model", "chosen", "expected"),
    [
        ("zai", "glm", ON, switch("enabled")),
        ("zhipu-coding", "glm", OFF, switch("disabled")),
        ("zai", "glm", {}, {}),
        ("deepseek", "v4", HIGH, switch("enabled") | HIGH),
        ("deepseek", "v4", {"reasoning_effort": "none"}, switch("disabled")),
        ("fireworks", "m", ON, switch("enabled")),
        ("fireworks", "m", ON | HIGH, HIGH),
        ("baseten", "m", ON, {"chat_template_args": {"enable_thinking": True}}),
        ("baseten", "m", OFF, {"chat_template_args": {"enable_thinking": False}}),
        ("alibaba-us", "qwen", ON, {"enable_thinking": True}),
        ("ionet", "m", HIGH, {"reasoning": {"effort": "high"}}),
        ("ionet", "m", ON, {"reasoning": {"effort": "medium"}}),
        ("ionet", "m", OFF, {"reasoning": {"effort": "none"}}),
        ("opencode-go", "minimax-m2.7", ON, switch("adaptive") | {"reasoning_split": True}),
        ("opencode-go", "minimax-m2.7", {}, {"reasoning_split": True}),
        ("opencode-zen", "deepseek", HIGH, HIGH),
        ("other", "m", HIGH, HIGH),
        ("other", "m", ON, {}),
    ],
)
def test_each_host_is_told_to_think_in_its_own_way(
    provider: str, model: str, chosen: dict[str, Any], expected: dict[str, Any]
) -> None:
    facts: dict[str, Any] = {"model": model, "settings": SelectedModel(**chosen)}
    plain = body({"id": provider}, **facts)
    thinking = body({"id": provider}, can_reason=True, **facts)
    assert {key: value for key, value in thinking.items() if key not in plain} == expected


def test_a_host_is_known_by_its_address_too() -> None:
    facts: dict[str, Any] = {"can_reason": True, "settings": SelectedModel(think=True)}
    assert body({"base_url": "https://api.z.ai/api/paas/v4"}, **facts)["thinking"] == {"type": "enabled"}
    for other in ("https://h/api.z.ai", "https://api.xyz.ai"):
        assert "thinking" not in body({"base_url": other}, **facts)


def test_calls_are_streamed_where_that_must_be_asked_for() -> None:
    assert body({"id": "zai"}, tools=(TOOL,))["tool_stream"] is True
    assert "tool_stream" not in body({"id": "zai"})


MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize("kind", ["openrouter", "vercel"])
def test_gateways_are_told_what_anthropic_is_to_cache(kind: str) -> None:
    """The last of the system and the last two messages; a message without words carries no mark."""
    calls = (ToolCall(id="a", name="ls", input="{}", finished=True),)
    turns = (UserTurn("one"), AssistantTurn("", tool_calls=calls), result("files"))
    facts: dict[str, Any] = {"model": "anthropic/claude-sonnet-4.6", "system": ("s", "t"), "turns": turns}
    sent = body({"type": kind}, **facts)["messages"]
    assert [message["content"] for message in sent] == [
        "s",
        [{"type": "text", "text": "t"} | MARK],
        "one",
        None,
        [{"type": "text", "text": "files"} | MARK],
    ]
    plain = body({"type": kind}, **(facts | {"model": "openai/gpt-5"}))["messages"]
    assert [message["content"] for message in plain] == ["s", "t", "one", None, "files"]
    for off in ({"prompt_caching": False}, {"provider_options": {"prompt_caching": False}}):
        sent = body({"type": kind} | off, **facts)
        assert sent["messages"] == plain
        assert "prompt_caching" not in sent


def test_what_options_say_of_thinking_counts_instead() -> None:
    chosen = SelectedModel(think=True, provider_options={"thinking": {"clear_thinking": False}})
    assert body({"id": "zai"}, can_reason=True, settings=chosen)["thinking"] == {"clear_thinking": False}
