"""The stream of a chat completion, as our events. Knows bytes and lines, nothing of connections.

This is the hottest loop of the server: one typed decoder reads each line, and only what does not fit it takes a
slower way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

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
from bullpen.providers.reading import (
    MAX_ARGUMENT_CHARS,
    MAX_CALLS,
    AnswerReader,
    count_in,
    ended_early,
    garbage,
    list_in,
    loads,
    made_up_id,
    text_in,
)
from bullpen.providers.refusals import error_in
from bullpen.schema.message import FinishReason

REASONS: dict[str, FinishReason] = {
    "stop": "end_turn",
    "end_turn": "end_turn",
    "eos": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "content_filter",
}


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
    cost: float | None = None


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


class ChatStream(AnswerReader):
    """What a host says is wrong goes through `hide` first: it may repeat a secret. `prices` says that its `cost` is in
    dollars."""

    def __init__(self, hide: Callable[[str], str] = str, *, prices: bool = False) -> None:
        super().__init__()
        self._hide = hide
        self._prices = prices
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._is_reasoning = False
        self._usage = Usage()

    def end(self) -> list[ModelEvent]:
        last = self.feed(b"\n") if self._rest and not self.done else []
        if not self.finish:
            raise ended_early("a finish reason")
        return [
            *last,
            *self._reasoning_end(),
            *self._finished_calls(),
            StepDone(self._reason(), self._counts()),
        ]

    def whole(self, raw: bytes) -> list[ModelEvent]:
        value = loads(raw)
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
            chunk = _lenient(loads(line))
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
            self.moved = True
            call.arguments.append(function.arguments)
            call.size += len(function.arguments)
            if call.size > MAX_ARGUMENT_CHARS:
                raise garbage("a tool call's arguments do not end")

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
                raise garbage(f"more than {MAX_CALLS} tool calls in one step")
            call = _Call(part.id or "")
            self._calls.append(call)
            self._by_index[index if part.index is not None else index + 1] = call
        elif part.id and not call.name:
            call.id = part.id
        return call

    def _unused(self, call_id: str) -> str:
        """The id, or a new one where it is missing or another call has it: results are paired by id."""
        taken = sum(1 for call in self._calls if call.name and call.id == call_id)
        return call_id if call_id and taken <= 1 else made_up_id()

    def _finished_calls(self) -> Iterator[ToolCallDone]:
        for call in self._calls:
            if not call.name:
                raise garbage("a tool call has no name")
            text = "".join(call.arguments)
            # A cut answer may have cut the arguments off as well; else no arguments mean an empty object.
            yield ToolCallDone(call.id, call.name, text or ("" if self.finish == "length" else "{}"))

    def _counts(self) -> Usage:
        return self._usage if self._prices else msgspec.structs.replace(self._usage, cost=None)

    def _reason(self) -> FinishReason:
        reason = REASONS.get(self.finish, "unknown")
        return "tool_use" if self._calls and reason not in ("max_tokens", "content_filter") else reason


def _usage(seen: _Usage, before: Usage) -> Usage:
    """The counts so far; a later chunk without a number, or with zeros, does not erase an earlier one."""
    details = seen.prompt_tokens_details or _Cached()
    read = max(0, details.cached_tokens or seen.prompt_cache_hit_tokens or 0) or before.cache_read
    write = max(0, details.cache_write_tokens or 0) or before.cache_write
    return Usage(
        input=max(0, seen.prompt_tokens - read - write) if seen.prompt_tokens else before.input,
        output=max(0, seen.completion_tokens or 0) or before.output,
        cache_read=read,
        cache_write=write,
        cost=seen.cost if seen.cost is not None and 0 <= seen.cost < math.inf else before.cost,
    )


def _lenient(value: Any) -> _Chunk:
    """A chunk whose fields have unusual types; what makes no sense is left out."""
    if not isinstance(value, dict):
        raise garbage("the stream holds something that is no chunk")
    choices = [_choice(c) for c in list_in(value.get("choices")) if isinstance(c, dict)]
    return _Chunk(choices=choices, usage=_usage_of(value.get("usage")), error=value.get("error"))


def _choice(choice: dict[str, Any]) -> _Choice:
    delta = choice.get("delta")
    finish = choice.get("finish_reason")
    return _Choice(
        delta=_delta(delta) if isinstance(delta, dict) else None, finish_reason=text_in(finish) or None
    )


def _delta(delta: dict[str, Any]) -> _Delta:
    calls = [_call_delta(c) for c in list_in(delta.get("tool_calls")) if isinstance(c, dict)]
    return _Delta(
        content=text_in(delta.get("content")),
        reasoning_content=text_in(delta.get("reasoning_content")),
        reasoning=text_in(delta.get("reasoning")),
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
        id=text_in(call.get("id")) or None,
        function=_Function(name=text_in(facts.get("name")), arguments=text_in(arguments)),
    )


def _usage_of(usage: Any) -> _Usage | None:
    if not isinstance(usage, dict):
        return None
    details, cost = usage.get("prompt_tokens_details"), usage.get("cost")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return _Usage(
        prompt_tokens=count_in(usage.get("prompt_tokens")),
        completion_tokens=count_in(usage.get("completion_tokens")),
        prompt_tokens_details=_Cached(cached_tokens=count_in(cached)),
        cost=cost if isinstance(cost, float) else None,
    )
