"""Our request as the body of a chat completion."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from bullpen.config.settings import ProviderSettings
from bullpen.providers.base import AssistantTurn, ModelRequest, Settled, ToolSpec, ToolTurn, Turn, UserTurn
from bullpen.schema.message import Binary, ToolCall, ToolResult

Json = dict[str, Any]

OURS = frozenset({"model", "messages", "stream", "stream_options", "tools"})
"""What neither `extra_body` nor provider options may change: the answer could not be read, or would be another's."""

_REASONING_ID = re.compile(r"(^|/)(o1|o3|o4|gpt-5)|-oss")
"""Models that call the limit of their answer `max_completion_tokens` and refuse sampling parameters."""

FOLLOWING = "These are the files from the tool results above."

_SAMPLING = ("temperature", "top_p", "frequency_penalty", "presence_penalty")


def body_of(request: ModelRequest, settings: ProviderSettings) -> Json:
    body: Json = {
        "model": request.model,
        "messages": messages_of(request, replay_reasoning=settings.type != "openai"),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
        body["tool_choice"] = "auto"
    reasons = bool(_REASONING_ID.search(request.model))
    if request.max_tokens:
        body["max_completion_tokens" if reasons else "max_tokens"] = request.max_tokens
    if not reasons:
        chosen = ((name, getattr(request.settings, name)) for name in _SAMPLING)
        body |= {name: value for name, value in chosen if value is not UNSET}
    if settings.type == "openrouter":
        body["usage"] = {"include": True}
    return _with_options(body, _reasoning(request, settings), settings, request)


def affinity_of(session_id: str) -> str:
    """A name for the session that tells the host nothing but which requests belong together."""
    return hashlib.sha256(session_id.encode()).hexdigest()[:16]


def messages_of(request: ModelRequest, *, replay_reasoning: bool = True) -> list[msgspec.Raw]:
    """The conversation, each message as JSON. Pictures in tool results follow in a user message, since results
    are text here."""
    system = [_raw({"role": "system", "content": text}) for text in request.system if text]
    known, said = _settled(request.settled, replay_reasoning=replay_reasoning)
    return [*system, *known, *_messages(request.turns[said:], replay_reasoning=replay_reasoning)]


def _settled(settled: Settled | None, *, replay_reasoning: bool) -> tuple[list[msgspec.Raw], int]:
    """The settled beginning as one piece of JSON, and how many turns that are; none when it has pictures, for these
    move with their neighbours."""
    if settled is None or not settled.turns:
        return [], 0
    form = f"chat, {replay_reasoning=}"
    count, so_far = settled.rendered.get(form, (0, b""))
    new = settled.turns[count:]
    if any(isinstance(turn, ToolTurn) and turn.result.data for turn in new):
        return [], 0
    pieces = [bytes(message) for message in _messages(new, replay_reasoning=replay_reasoning)]
    so_far = b",".join([so_far, *pieces] if so_far else pieces)
    settled.rendered[form] = (len(settled.turns), so_far)
    for turn in new:
        turn.rendered.clear()  # It is in there now.
    return [msgspec.Raw(so_far)], len(settled.turns)


def _messages(turns: Sequence[Turn], *, replay_reasoning: bool) -> list[msgspec.Raw]:
    form = f"chat, {replay_reasoning=}"
    messages: list[msgspec.Raw] = []
    shown: list[Binary] = []
    for turn in turns:
        if shown and not isinstance(turn, ToolTurn):
            messages.append(_raw(_user(FOLLOWING, shown)))
            shown = []
        message = turn.rendered.get(form)
        if message is None:
            message = turn.rendered[form] = _raw(_message(turn, replay_reasoning=replay_reasoning))
        messages.append(message)
        if isinstance(turn, ToolTurn) and turn.result.data:
            shown += _media(turn.result)
    if shown:
        messages.append(_raw(_user(FOLLOWING, shown)))
    return messages


def _raw(value: Json) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _message(turn: Turn, *, replay_reasoning: bool) -> Json:
    match turn:
        case UserTurn(text=text, files=files):
            return _user(text, files)
        case AssistantTurn():
            return _assistant(turn, replay_reasoning=replay_reasoning)
        case ToolTurn(result=result):
            content = result.content or (
                "The file follows in the next message." if _media(result) else "(no output)"
            )
            return {"role": "tool", "tool_call_id": result.tool_call_id, "content": content}


def _tool(spec: ToolSpec) -> Json:
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "strict": False,
    }
    return {"type": "function", "function": function}


def _user(text: str, files: Iterable[Binary]) -> Json:
    parts = [part for file in files for part in _file_parts(file)]
    if not parts:
        return {"role": "user", "content": text}
    return {"role": "user", "content": [{"type": "text", "text": text}, *parts]}


def _file_parts(file: Binary) -> list[Json]:
    url = f"data:{file.mime_type};base64,{base64.b64encode(file.data).decode()}"
    if file.mime_type.startswith("image/"):
        return [{"type": "image_url", "image_url": {"url": url}}]
    name = file.path.rpartition("/")[2] or "file"
    if file.mime_type == "application/pdf":
        return [{"type": "file", "file": {"filename": name, "file_data": url}}]
    return [{"type": "text", "text": f"[{name}, {file.mime_type}, cannot be shown to this model]"}]


def _media(result: ToolResult) -> list[Binary]:
    """The picture in a tool result; what is not base64 is left out."""
    if not result.data or not result.mime_type.startswith("image/"):
        return []
    try:
        data = base64.b64decode(result.data, validate=True)
        return [Binary(path=result.name, mime_type=result.mime_type, data=data)]
    except ValueError:
        return []


def _assistant(turn: AssistantTurn, *, replay_reasoning: bool) -> Json:
    message: Json = {"role": "assistant", "content": turn.text or None if turn.tool_calls else turn.text}
    if turn.reasoning and replay_reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.tool_calls:
        message["tool_calls"] = [_call(call) for call in turn.tool_calls]
    return message


def _call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": _arguments(call.input)}
    return {"id": call.id, "type": "function", "function": function}


def _arguments(text: str) -> str:
    """Arguments that hosts accept: many refuse a whole conversation for one call that is not an object."""
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError):
        return "{}"
    return text


def _reasoning(request: ModelRequest, settings: ProviderSettings) -> Json:
    effort = request.settings.reasoning_effort
    if not request.can_reason or effort is UNSET or not effort:
        return {}
    return (
        {"reasoning": {"effort": effort}} if settings.type == "openrouter" else {"reasoning_effort": effort}
    )


def _with_options(body: Json, automatic: Json, settings: ProviderSettings, request: ModelRequest) -> Json:
    """The body with what the config adds: the model's own options win over the provider's."""
    chosen = request.settings.provider_options
    extra: Json = {}
    for options in (settings.extra_body, settings.provider_options, {} if chosen is UNSET else chosen):
        extra = _deep(extra, options)
    extra = {key: value for key, value in extra.items() if key not in OURS}
    return _deep(_deep(body, automatic), extra)


def _deep(base: Mapping[str, Any], over: Mapping[str, Any]) -> Json:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(merged.get(key), dict) and isinstance(value, dict)
        merged[key] = _deep(merged[key], value) if both else value
    return merged
