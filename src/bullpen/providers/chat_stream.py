"""The stream of a chat completion, as our events. Knows bytes and lines, nothing of connections.

This is the hottest loop of the server: one typed decoder reads each line, and only what does not fit it takes a
slower way. Whatever a host sends, the outcome is events or `ProviderError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import msgspec

from bullpen.errors import ProviderError
from bullpen.providers.base import (
    ModelEvent,
    ReasoningDelta,
    ReasoningDone,
    StepDone,
    TextDelta,
    ToolCallDone,
    ToolCallStarted,
    Usage,
)
from bullpen.schema.message import FinishReason

MAX_LINE_BYTES = 8 << 20
"""A line that does not end. The longest honest ones are whole tool calls, far below this."""

MAX_ARGUMENT_CHARS = 8 << 20
MAX_CALLS = 128
"""Calls in one step. More is a model that runs in circles."""

REASONS: dict[str, FinishReason] = {
    "stop": "end_turn",
    "end_turn": "end_turn",
    "eos": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "content_filter",
}

RETRYABLE_TYPES = frozenset(
    {
        "server_error",
        "internal_error",
        "internal_server_error",
        "overloaded_error",
        "api_error",
        "rate_limit_error",
    }
)


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _CallDelta(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_CallDelta] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Cached(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Cached | None = None
    prompt_cache_hit_tokens: int | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class _Call:
    """One tool call as it comes in."""

    __slots__ = ("arguments", "id", "name", "size")

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.name = ""
        self.arguments: list[str] = []
        self.size = 0


class ChatStream:
    """Takes bytes in, gives events out. `done` tells that nothing more is to come. What a host says is wrong goes
    through `hide` first: it may repeat a secret."""

    def __init__(self, hide: Callable[[str], str] = str) -> None:
        self._hide = hide
        self.done = False
        self.finish = ""
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._events: list[ModelEvent] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._is_reasoning = False
        self._usage = Usage()

    def feed(self, data: bytes) -> list[ModelEvent]:
        """The events in the next bytes. Raises `ProviderError`."""
        lines = data.split(b"\n")
        rest = lines.pop()
        events: list[ModelEvent] = []
        if lines and self._rest:
            self._rest.append(lines[0])
            lines[0] = b"".join(self._rest)
            self._rest.clear()
            self._rest_bytes = 0
        if rest:
            self._rest.append(rest)
            self._rest_bytes += len(rest)
            if self._rest_bytes > MAX_LINE_BYTES:
                raise _garbage("a line does not end")
        self._events = events
        for line in lines:
            if line.startswith(b"data:"):
                self._line(line[5:])
            elif line.startswith(b"{"):
                # Some hosts answer in plain JSON once something is wrong.
                self._line(line)
        return events

    def end(self) -> list[ModelEvent]:
        """The last events, once the connection has ended or `done` is set. Raises `ProviderError`."""
        last = self.feed(b"\n") if self._rest and not self.done else []
        if not self.finish:
            raise ProviderError(
                "the model's answer ended early, without a finish reason",
                title="Stream Transport Error",
                retryable=True,
            )
        return [*last, *self._reasoning_end(), *self._finished_calls(), StepDone(self._reason(), self._usage)]

    def whole(self, raw: bytes) -> list[ModelEvent]:
        """The events of an answer that came in one piece, from a host that does not stream."""
        value = _loads(raw)
        choices = value.get("choices") if isinstance(value, dict) else None
        if isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict) and isinstance(choice.get("message"), dict):
                    choice["delta"] = choice.pop("message")
        self._events = []
        self._take(_lenient(value))
        return [*self._events, *self.end()]

    def _line(self, line: bytes) -> None:
        try:
            chunk = _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if line.strip() == b"[DONE]":
                self.done = True
                return
            if not line.strip():
                return
            chunk = _lenient(_loads(line))
        self._take(chunk)

    def _take(self, chunk: _Chunk) -> None:
        if chunk.error:
            raise error_in(chunk.error, self._hide)
        if chunk.usage is not None:
            self._usage = _usage(chunk.usage, self._usage)
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        if choice.finish_reason:
            self.finish = choice.finish_reason
        delta = choice.delta
        if delta is None:
            return
        thought = delta.reasoning_content or delta.reasoning
        if thought:
            self._is_reasoning = True
            self._events.append(ReasoningDelta(thought))
        if delta.content:
            if self._is_reasoning:
                self._events += self._reasoning_end()
            self._events.append(TextDelta(delta.content))
        if delta.tool_calls:
            self._events += self._reasoning_end()
            for part in delta.tool_calls:
                self._call(part)

    def _reasoning_end(self) -> Iterator[ReasoningDone]:
        if self._is_reasoning:
            self._is_reasoning = False
            yield ReasoningDone()

    def _call(self, part: _CallDelta) -> None:
        function = part.function or _Function()
        call = self._call_of(part, function)
        if function.name and not call.name:
            call.name = function.name
            call.id = self._unused(call.id)
            self._events.append(ToolCallStarted(call.id, call.name))
        if function.arguments:
            call.arguments.append(function.arguments)
            call.size += len(function.arguments)
            if call.size > MAX_ARGUMENT_CHARS:
                raise _garbage("a tool call's arguments do not end")

    def _call_of(self, part: _CallDelta, function: _Function) -> _Call:
        """The call that a piece belongs to.

        Calls may interleave, so the index decides; where there is none, or all calls share one, a new id with
        a name begins a new call.
        """
        index = part.index if part.index is not None else len(self._by_index) - 1
        call = self._by_index.get(index)
        begins_another = bool(part.id and function.name and call and call.name and part.id != call.id)
        if call is None or begins_another:
            if len(self._calls) >= MAX_CALLS:
                raise _garbage(f"more than {MAX_CALLS} tool calls in one step")
            call = _Call(part.id or "")
            self._calls.append(call)
            self._by_index[index if part.index is not None else index + 1] = call
        elif part.id and not call.name:
            call.id = part.id
        return call

    def _unused(self, call_id: str) -> str:
        """The id, or a new one where it is missing or another call has it: results are paired by id."""
        taken = sum(1 for call in self._calls if call.name and call.id == call_id)
        return call_id if call_id and taken <= 1 else f"call_{uuid4().hex}"

    def _finished_calls(self) -> Iterator[ToolCallDone]:
        for call in self._calls:
            if not call.name:
                raise _garbage("a tool call has no name")
            text = "".join(call.arguments)
            # A cut answer may have cut the arguments off as well; else no arguments mean an empty object.
            yield ToolCallDone(call.id, call.name, text or ("" if self.finish == "length" else "{}"))

    def _reason(self) -> FinishReason:
        return "tool_use" if self._calls else REASONS.get(self.finish, "unknown")


def error_in(error: Any, hide: Callable[[str], str] = str) -> ProviderError:
    """What a host said instead of going on."""
    facts = error if isinstance(error, dict) else {}
    kind, code = str(facts.get("type") or ""), facts.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 0
    retryable = kind in RETRYABLE_TYPES or status in (408, 409, 429) or status >= 500
    return ProviderError(
        hide(message_in(error)) or "the model's host reported an error", status=status, retryable=retryable
    )


def message_in(value: Any) -> str:
    """The sentence in an error object, whatever its form."""
    match value:
        case str():
            return value
        case {"message": str(text)} if text:
            return text
        case {"error": inner} if inner:
            return message_in(inner)
        case {"detail": inner} if inner:
            return message_in(inner)
        case [first, *_]:
            return message_in(first)
    return ""


def _usage(seen: _Usage, before: Usage) -> Usage:
    """The counts so far; a later chunk without a number does not erase an earlier one."""
    details = seen.prompt_tokens_details or _Cached()
    read = details.cached_tokens or seen.prompt_cache_hit_tokens or 0
    write = details.cache_write_tokens or 0
    prompt = seen.prompt_tokens
    return Usage(
        input=before.input if prompt is None else max(0, prompt - read - write),
        output=before.output if seen.completion_tokens is None else max(0, seen.completion_tokens),
        cache_read=max(0, read) or before.cache_read,
        cache_write=max(0, write) or before.cache_write,
    )


def _loads(raw: bytes) -> Any:
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as exc:
        raise _garbage("the stream holds something that is not JSON") from exc
    return value


def _lenient(value: Any) -> _Chunk:
    """A chunk whose fields have unusual types; what makes no sense is left out."""
    if not isinstance(value, dict):
        raise _garbage("the stream holds something that is no chunk")
    choices = [_choice(c) for c in _list(value.get("choices")) if isinstance(c, dict)]
    return _Chunk(choices=choices, usage=_usage_of(value.get("usage")), error=value.get("error"))


def _choice(choice: dict[str, Any]) -> _Choice:
    delta = choice.get("delta")
    finish = choice.get("finish_reason")
    return _Choice(
        delta=_delta(delta) if isinstance(delta, dict) else None, finish_reason=_text(finish) or None
    )


def _delta(delta: dict[str, Any]) -> _Delta:
    calls = [_call_delta(c) for c in _list(delta.get("tool_calls")) if isinstance(c, dict)]
    return _Delta(
        content=_text(delta.get("content")),
        reasoning_content=_text(delta.get("reasoning_content")),
        reasoning=_text(delta.get("reasoning")),
        tool_calls=calls or None,
    )


def _call_delta(call: dict[str, Any]) -> _CallDelta:
    function, index = call.get("function"), call.get("index")
    facts = function if isinstance(function, dict) else {}
    arguments = facts.get("arguments")
    if isinstance(arguments, (dict, list)):
        arguments = msgspec.json.encode(arguments).decode()
    return _CallDelta(
        index=index if isinstance(index, int) else None,
        id=_text(call.get("id")) or None,
        function=_Function(name=_text(facts.get("name")), arguments=_text(arguments)),
    )


def _usage_of(usage: Any) -> _Usage | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return _Usage(
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        prompt_tokens_details=_Cached(cached_tokens=_count(cached)),
    )


def _count(value: Any) -> int | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(value) if is_number and abs(value) < 1e15 else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    """Text, also from a list of text parts; half characters become the replacement sign."""
    if isinstance(value, list):
        return "".join(_text(v.get("text")) for v in value if isinstance(v, dict))
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _garbage(what: str) -> ProviderError:
    return ProviderError(
        f"the model's answer cannot be read: {what}", title="Stream Transport Error", retryable=True
    )
