"""Our request as the body of a chat completion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from bullpen.config.settings import ProviderSettings
from bullpen.providers.base import AssistantTurn, ModelRequest, Settled, ToolSpec, ToolTurn, Turn, UserTurn
from bullpen.providers.chat_hosts import own_fields, wants_marks
from bullpen.providers.content import arguments_of, base64_of, media_of, name_of, unshown
from bullpen.providers.options import CACHING, MARKED_MESSAGES, Json, options_of, sampling_of, with_options
from bullpen.schema.message import Binary, ToolCall, ToolResult

OURS = frozenset({"model", "messages", "stream", "stream_options", "tools"})
"""What neither `extra_body` nor provider options may change: the answer could not be read, or would be another's."""

_REASONING_ID = re.compile(r"(^|/)(o[134](?![a-z0-9])|gpt-5)|-oss")
"""Models that call the limit of their answer `max_completion_tokens` and refuse sampling parameters. Not GPT-4."""

FOLLOWING = "These are the files from the tool results above."

_SAMPLING = ("temperature", "top_p", "frequency_penalty", "presence_penalty")


def body_of(request: ModelRequest, settings: ProviderSettings) -> Json:
    options = options_of(request, settings, ours=OURS)
    marked = options.pop(CACHING, True) is not False and wants_marks(request, settings)
    body: Json = {
        "model": request.model,
        "messages": messages_of(request, replay_reasoning=settings.type != "openai", marked=marked),
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
        body |= sampling_of(request, settings, _SAMPLING)
    if settings.type == "openrouter":
        body["usage"] = {"include": True}
    return with_options(body, own_fields(request, settings), options)


def messages_of(
    request: ModelRequest, *, replay_reasoning: bool = True, marked: bool = False
) -> list[msgspec.Raw]:
    """The conversation, each message as JSON. Pictures in tool results follow in a user message, since results
    are text here. `marked` are the last of the system and the last two messages, for the cache."""
    system = [_raw({"role": "system", "content": text}) for text in request.system if text]
    if marked:
        each = _messages(request.turns, replay_reasoning=replay_reasoning)
        ends = [_with_mark(message) for message in each[-MARKED_MESSAGES:]]
        return [*system[:-1], *map(_with_mark, system[-1:]), *each[:-MARKED_MESSAGES], *ends]
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
            shown += _pictures(turn.result)
    if shown:
        messages.append(_raw(_user(FOLLOWING, shown)))
    return messages


def _with_mark(message: msgspec.Raw) -> msgspec.Raw:
    """A mark on the last part of the content; a message without words has none."""
    value: Json = msgspec.json.decode(message)
    content = value.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not parts or content == "":
        return message
    value["content"] = [*parts[:-1], parts[-1] | {"cache_control": {"type": "ephemeral"}}]
    return _raw(value)


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
                "The file follows in the next message." if _pictures(result) else "(no output)"
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
    url = f"data:{file.mime_type};base64,{base64_of(file)}"
    if file.mime_type.startswith("image/"):
        return [{"type": "image_url", "image_url": {"url": url}}]
    if file.mime_type == "application/pdf":
        return [{"type": "file", "file": {"filename": name_of(file), "file_data": url}}]
    return [{"type": "text", "text": unshown(file)}]


def _pictures(result: ToolResult) -> list[Binary]:
    return [file for file in media_of(result) if file.mime_type.startswith("image/")]


def _assistant(turn: AssistantTurn, *, replay_reasoning: bool) -> Json:
    message: Json = {"role": "assistant", "content": turn.text or None if turn.tool_calls else turn.text}
    if turn.reasoning and replay_reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.tool_calls:
        message["tool_calls"] = [_call(call) for call in turn.tool_calls]
    return message


def _call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": arguments_of(call.input)}
    return {"id": call.id, "type": "function", "function": function}
