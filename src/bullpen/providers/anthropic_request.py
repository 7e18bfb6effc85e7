"""Our request as the body of Anthropic's Messages interface."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from bullpen.config.settings import ProviderSettings
from bullpen.providers.anthropic_stream import FORM
from bullpen.providers.anthropic_thinking import samples, thinking_of
from bullpen.providers.base import AssistantTurn, ModelRequest, ToolSpec, ToolTurn, Turn, UserTurn
from bullpen.providers.content import arguments_of, base64_of, media_of, name_of, sound_id, unshown
from bullpen.providers.options import (
    CACHING,
    MARKED_MESSAGES,
    Json,
    host_of,
    is_cached,
    options_of,
    sampling_of,
    with_options,
)
from bullpen.schema.message import Binary, ToolCall, ToolResult

OURS = frozenset({"model", "messages", "stream", "system", "tools"})
"""What neither `extra_body` nor provider options may change: the answer could not be read, or would be another's."""

MAX_TOKENS = 32_000
"""For an answer, where nobody says how long it may be. Every model since Claude 4 can say this much."""

MAX_TOKENS_BEFORE_4 = 4096
"""Claude 3 refuses a request that asks for more than it can say."""

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
TEXTUAL = re.compile(r"text/|application/(?:[\w.+-]*\+)?(?:json|xml|yaml|toml|javascript|x-sh)$")

MARK = b'"cache_control":{"type":"ephemeral"}'

NO_OUTPUT = "(no output)"

_BEFORE_4 = re.compile(r"claude-(?:3[-.](?!7)|2|instant)")

_SAMPLING = ("temperature", "top_p", "top_k")

Role = Literal["user", "assistant"]


class Said(NamedTuple):
    """A turn as it is sent: a JSON array of blocks, without its brackets."""

    role: Role
    is_result: bool
    blocks: bytes


def body_of(request: ModelRequest, settings: ProviderSettings) -> Json:
    options = options_of(request, settings, ours=OURS)
    wanted = options.pop(CACHING, True) is not False and settings.prompt_caching
    caching = wanted and is_cached(request)
    limit = max_tokens_of(request, settings)
    thinking = thinking_of(request, limit, form_of(settings))
    body: Json = {
        "model": request.model,
        "max_tokens": limit,
        "messages": messages_of(request, form_of(settings), caching=caching),
        "stream": True,
    }
    if system := [{"type": "text", "text": text} for text in request.system if text.strip()]:
        body["system"] = _marked(system) if caching else system
    if tools := [_tool(spec) for spec in request.tools]:
        body["tools"] = _marked(tools) if caching else tools
    if samples(request.model):
        body |= sampling_of(request, settings, _SAMPLING)
    body = with_options(body, thinking, options)
    if body.get("thinking", {}).get("type", "disabled") != "disabled":
        for name in _SAMPLING:
            body.pop(name, None)
    elif "temperature" in body and "claude" in request.model:
        body.pop("top_p", None)  # Only one of the two is accepted.
    return body


def form_of(settings: ProviderSettings) -> str:
    """Whose signatures an answer has: other vendors that speak this interface cannot read Anthropic's, nor it theirs."""
    host = host_of(settings)
    own = not host or f".{host}".endswith(".anthropic.com")
    return FORM if own else f"{FORM}:{settings.id}"


def max_tokens_of(request: ModelRequest, settings: ProviderSettings) -> int:
    """What was asked for, what the model's entry says, or a default that is large enough for any answer."""
    model = settings.model(request.model)
    listed = model.default_max_tokens if model else 0
    largest = MAX_TOKENS_BEFORE_4 if _BEFORE_4.search(request.model) else MAX_TOKENS
    return request.max_tokens or listed or largest


# The conversation


def messages_of(request: ModelRequest, form: str, *, caching: bool) -> list[msgspec.Raw]:
    """The conversation, users and models in turn, each message as JSON. The settled beginning is one piece that is kept
    from step to step: all messages before those that carry a mark."""
    kept, count = _settled(request, form)
    messages = _messages([_said(turn, form) for turn in request.turns[count:]])
    marked = min(MARKED_MESSAGES, len(messages)) if caching else 0
    plain = [_message(role, blocks) for role, blocks in messages[: len(messages) - marked]]
    ends = [_message(role, _with_mark(blocks)) for role, blocks in messages[len(messages) - marked :]]
    return [*kept, *plain, *ends]


def _settled(request: ModelRequest, form: str) -> tuple[list[msgspec.Raw], int]:
    """The messages of the settled beginning that nothing can change any more, and how many turns those are."""
    settled = request.settled
    if settled is None or not settled.turns:
        return [], 0
    count, so_far = settled.rendered.get(form, (0, b""))
    end = _unmarked(request.turns, form)
    if count > end:
        return [], 0
    end = min(end, len(settled.turns))
    while end > count and not _is_border(request.turns, end, form):
        end -= 1
    if end > count:
        new = settled.turns[count:end]
        pieces = [bytes(_message(role, blocks)) for role, blocks in _messages([_said(t, form) for t in new])]
        so_far = b",".join([so_far, *pieces] if so_far else pieces)
        settled.rendered[form] = (end, so_far)
        for turn in new:
            turn.rendered.pop(form, None)  # It is in there now.
        count = end
    return ([msgspec.Raw(so_far)] if so_far else []), count


def _unmarked(turns: Sequence[Turn], form: str) -> int:
    """How many turns come before the messages that carry marks."""
    messages = 0
    last: Role | None = None
    for at in range(len(turns) - 1, -1, -1):
        role = _role(turns[at], form)
        if role is not None and role != last:
            last = role
            messages += 1
            if messages > MARKED_MESSAGES:
                return at + 1
    return 0


def _is_border(turns: Sequence[Turn], at: int, form: str) -> bool:
    """Whether one message ends and another begins before the turn at that place."""
    before = next((role for n in range(at - 1, -1, -1) if (role := _role(turns[n], form))), None)
    after = next((role for n in range(at, len(turns)) if (role := _role(turns[n], form))), None)
    return before != after


def _role(turn: Turn, form: str) -> Role | None:
    """Who says the turn; None if there is nothing to send of it."""
    match turn:
        case AssistantTurn():
            native = _native(turn, form)
            speaks = native if native is not None else _blocks(turn)
            return "assistant" if speaks else None
        case UserTurn(text=text, files=files):
            return "user" if text.strip() or files else None
        case ToolTurn():
            return "user"


def _messages(said: Iterable[Said]) -> list[tuple[Role, bytes]]:
    """Neighbours of the same role as one message, results first: they must follow their calls."""
    groups: list[list[Said]] = []
    for each in said:
        if not each.blocks:
            continue
        if groups and groups[-1][0].role == each.role:
            groups[-1].append(each)
        else:
            groups.append([each])
    return [
        (group[0].role, b",".join(s.blocks for s in sorted(group, key=lambda s: not s.is_result)))
        for group in groups
    ]


def _message(role: Role, blocks: bytes) -> msgspec.Raw:
    return msgspec.Raw(b'{"role":"%s","content":[%s]}' % (role.encode(), blocks))


class _Kind(msgspec.Struct):
    type: str = ""


def _with_mark(blocks: bytes) -> bytes:
    """A mark on the last block that may carry one: thoughts may not."""
    each = msgspec.json.decode(b"[%s]" % blocks, type=list[msgspec.Raw])
    for at in range(len(each) - 1, -1, -1):
        block = bytes(each[at]).rstrip()
        if "thinking" not in msgspec.json.decode(block, type=_Kind).type:
            each[at] = msgspec.Raw(block[:-1] + b"," + MARK + b"}")
            return b",".join(bytes(one) for one in each)
    return blocks


def _marked(blocks: list[Json]) -> list[Json]:
    return [*blocks[:-1], blocks[-1] | {"cache_control": {"type": "ephemeral"}}]


# One turn


def _said(turn: Turn, form: str) -> Said:
    role: Role = "assistant" if isinstance(turn, AssistantTurn) else "user"
    blocks = turn.rendered.get(form)
    if blocks is None:
        native = _native(turn, form) if isinstance(turn, AssistantTurn) else None
        blocks = msgspec.Raw(native if native is not None else msgspec.json.encode(_blocks(turn))[1:-1])
        turn.rendered[form] = blocks
    return Said(role, isinstance(turn, ToolTurn), bytes(blocks))


def _native(turn: AssistantTurn, form: str) -> bytes | None:
    """The answer word for word, if it is in this form and can still be read."""
    if turn.native is None or turn.native.form != form:
        return None
    try:
        blocks = msgspec.json.decode(turn.native.content, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return b",".join(bytes(block) for block in blocks)


def _blocks(turn: Turn) -> list[Json]:
    match turn:
        case UserTurn(text=text, files=files):
            return [*_text(text), *(_file(file) for file in files)]
        case AssistantTurn():
            # No thoughts: a signature holds for one whole thought, and of an answer that was cut off nobody knows
            # whether the text here is that. A wrong one has the conversation refused for good.
            return [*_text(turn.text), *(_call(call) for call in turn.tool_calls)]
        case ToolTurn(result=result):
            return [_result(result)]


def _text(text: str) -> list[Json]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _call(call: ToolCall) -> Json:
    return {
        "type": "tool_use",
        "id": sound_id(call.id),
        "name": call.name,
        "input": msgspec.Raw(arguments_of(call.input).encode()),
    }


def _result(result: ToolResult) -> Json:
    content = [*_text(result.content), *(_file(file) for file in media_of(result))] or _text(NO_OUTPUT)
    block: Json = {"type": "tool_result", "tool_use_id": sound_id(result.tool_call_id), "content": content}
    return block | ({"is_error": True} if result.is_error else {})


def _file(file: Binary) -> Json:
    kind = file.mime_type.partition(";")[0].strip().lower()
    if kind in IMAGES:
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": base64_of(file)}}
    if kind == "application/pdf":
        return _document(file, {"type": "base64", "media_type": kind, "data": base64_of(file)})
    if TEXTUAL.match(kind) and (text := file.data.decode("utf-8", "replace")).strip():
        return _document(file, {"type": "text", "media_type": "text/plain", "data": text})
    return {"type": "text", "text": unshown(file)}


def _document(file: Binary, source: Json) -> Json:
    return {"type": "document", "source": source, "title": name_of(file)}


def _tool(spec: ToolSpec) -> Json:
    """Alternatives at the top of a schema are refused; what is in them is checked when the tool is called."""
    schema: dict[str, Any] = {
        key: value for key, value in spec.parameters.items() if key not in ("anyOf", "oneOf", "allOf")
    }
    return {
        "name": spec.name,
        "description": spec.description,
        "input_schema": {"type": "object", **schema},
    }
