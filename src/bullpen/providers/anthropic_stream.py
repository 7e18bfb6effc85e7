"""The stream of an Anthropic message, as our events. Knows bytes and lines, nothing of connections.

An answer is a row of blocks: words, thoughts with a signature, calls. They are told as they come, and kept, because the
vendor wants to see thoughts again word for word and in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from bullpen.providers.base import (
    ModelEvent,
    Native,
    ReasoningDelta,
    ReasoningDone,
    StepDone,
    TextDelta,
    ToolCallDone,
    ToolCallStarted,
    Usage,
)
from bullpen.providers.content import arguments_of, sound_id
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

FORM = "anthropic"
"""The form of answers whose thoughts Anthropic signed; its signatures hold wherever its models are served."""

MAX_BLOCKS = 4096
MAX_DEPTH = 100

REASONS: dict[str, FinishReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "content_filter",
}
"""Anything else, such as `pause_turn` of tools that we do not offer, is unknown."""

CUT = frozenset({"max_tokens", "model_context_window_exceeded"})

BETWEEN_THOUGHTS = "\n\n"


class _Delta(msgspec.Struct, gc=False):
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    citation: dict[str, Any] | None = None


class _Counts(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Message(msgspec.Struct):
    usage: _Counts | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int | None = None
    delta: _Delta | None = None
    content_block: dict[str, Any] | None = None
    message: _Message | None = None
    usage: _Counts | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class _Block:
    """One block as it comes in: how it began, and what was added since."""

    __slots__ = ("citations", "done", "head", "id", "kind", "name", "pieces", "signature", "size", "stopped")

    def __init__(self, head: dict[str, Any]) -> None:
        self.head = head
        self.kind = text_in(head.get("type"))
        self.id = text_in(head.get("id"))
        self.name = text_in(head.get("name"))
        self.pieces: list[str] = []
        self.size = 0
        self.signature = ""
        self.citations: list[Any] = []
        self.stopped = False
        self.done = False
        """It is a call, and was told to be complete."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def arguments(self) -> str:
        """As they came in pieces; some hosts give them whole at the beginning instead."""
        begun = self.head.get("input")
        return self.text or (msgspec.json.encode(begun).decode() if isinstance(begun, dict) and begun else "")

    def as_sent(self, *, signed: bool) -> dict[str, Any] | None:
        """The block for the next request; None for what would be refused. With `signed`, so are thoughts without."""
        match self.kind:
            case "text":
                cited = {"citations": self.citations} if self.citations else {}
                return self.head | {"text": self.text} | cited if self.text.strip() else None
            case "thinking" if signed and not self.signature:
                return None
            case "thinking":
                seal = {"signature": self.signature} if self.signature else {}
                return self.head | {"thinking": self.text} | seal
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                return self.head | {
                    "id": self.id,
                    "name": self.name,
                    "input": msgspec.Raw(arguments_of(self.arguments).encode()),
                }
        return self.head


class AnthropicStream(AnswerReader):
    """`form` names the vendor whose signatures these are. What a host says is wrong goes through `hide` first: it may
    repeat a secret."""

    def __init__(self, hide: Callable[[str], str] = str, form: str = FORM) -> None:
        super().__init__()
        self._hide = hide
        self._form = form
        self._stop_reason = ""
        self._blocks: list[_Block] = []
        self._by_index: dict[int, _Block] = {}
        self._ids: set[str] = set()
        self._usage = Usage()
        self._has_thought = False
        self._has_gap = False
        """A thought ended and another begins: they are shown as one text."""

    def end(self) -> list[ModelEvent]:
        last = self.feed(b"\n") if self._rest and not self.done else []
        if not self.done:
            raise ended_early("its last event")
        if not self._stop_reason:
            raise ended_early("a stop reason")
        return [*last, *self._ends(), StepDone(self._reason(), self._usage, self._native())]

    def whole(self, raw: bytes) -> list[ModelEvent]:
        value = loads(raw)
        if not isinstance(value, dict):
            raise garbage("the answer is no message")
        if value.get("error"):
            raise error_in(value["error"], self._hide)
        told: list[ModelEvent] = []
        self._events = told
        for index, head in enumerate(list_in(value.get("content"))):
            if isinstance(head, dict):
                self._stop(self._begin(index, _sound(head)))
        self._count(_counts(value.get("usage")))
        self._stop_reason = text_in(value.get("stop_reason"))
        self.finish, self.done = self._stop_reason, True
        return [*told, *self.end()]

    def _line(self, line: bytes) -> None:
        try:
            event = _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if line.strip() in (b"", b"[DONE]"):
                return
            event = _lenient(loads(line))
        if event.type == "content_block_delta":
            if event.delta is not None:
                self._grow(self._block_at(event.index, event.delta), event.delta)
            return
        if event.error or event.type == "error":
            raise error_in(event.error, self._hide)
        if event.message is not None:
            self._count(event.message.usage)
        self._count(event.usage)
        match event.type:
            case "content_block_start":
                self._begin(event.index, event.content_block or {})
            case "content_block_stop" if self._blocks:
                self._stop(self._blocks[-1] if event.index is None else self._by_index.get(event.index))
            case "message_delta" if event.delta is not None and event.delta.stop_reason:
                self._stop_reason = event.delta.stop_reason
            case "message_stop":
                # Both are needed: the reason comes before the last event.
                self.finish, self.done = self._stop_reason, True

    def _block_at(self, index: int | None, delta: _Delta) -> _Block:
        block = self._by_index.get(index) if index is not None else self._blocks[-1] if self._blocks else None
        if block is not None:
            return block
        if delta.partial_json:
            raise garbage("a tool call has no beginning")
        return self._begin(index, {"type": "text"} if delta.text is not None else {"type": "thinking"})

    def _begin(self, index: int | None, head: dict[str, Any]) -> _Block:
        at = index if index is not None else len(self._blocks)
        before = self._by_index.get(at)
        if before is not None and not before.stopped and before.head == head:
            return before  # Said twice.
        if len(self._blocks) >= MAX_BLOCKS:
            raise garbage("the blocks of the answer do not end")
        block = _Block(head)
        self._blocks.append(block)
        self._by_index[at] = block
        match block.kind:
            case "tool_use":
                self._begin_call(block)
            case "text":
                self._grow(block, _Delta(text=text_in(head.get("text"))))
            case "thinking":
                self._has_gap = self._has_thought
                self._grow(block, _Delta(thinking=text_in(head.get("thinking"))))
                block.signature = text_in(head.get("signature"))
        return block

    def _begin_call(self, block: _Block) -> None:
        if not block.name:
            raise garbage("a tool call has no name")
        # Sound at once, because results name it and the answer itself is kept word for word.
        block.id = sound_id(block.id)
        if not block.id or block.id in self._ids:
            block.id = made_up_id()
        self._ids.add(block.id)
        if len(self._ids) > MAX_CALLS:
            raise garbage(f"more than {MAX_CALLS} tool calls in one step")
        self._events.append(ToolCallStarted(block.id, block.name))

    def _grow(self, block: _Block, delta: _Delta) -> None:
        if delta.text:
            block.pieces.append(delta.text)
            self._events.append(TextDelta(delta.text))
        elif delta.thinking:
            if self._has_gap:
                self._has_gap = False
                self._events.append(ReasoningDelta(BETWEEN_THOUGHTS))
            self._has_thought = True
            block.pieces.append(delta.thinking)
            self._events.append(ReasoningDelta(delta.thinking))
        elif delta.partial_json:
            self.moved = True
            block.pieces.append(delta.partial_json)
            block.size += len(delta.partial_json)
            if block.size > MAX_ARGUMENT_CHARS:
                raise garbage("a tool call's arguments do not end")
        elif delta.signature:
            self.moved = True
            block.signature += delta.signature
        elif delta.citation is not None:
            block.citations.append(delta.citation)

    def _stop(self, block: _Block | None) -> None:
        if block is None or block.stopped:
            return
        block.stopped = True
        if block.kind == "thinking":
            self._events.append(ReasoningDone(block.signature))
        elif block.kind == "tool_use" and block.arguments:
            block.done = True
            self._events.append(ToolCallDone(block.id, block.name, block.arguments))

    def _ends(self) -> Iterator[ModelEvent]:
        """What is left to say of blocks that were not told to be complete, now that the reason of the end is known.

        No arguments are an empty object, unless the answer was cut off at that call: then they never came.
        """
        for block in self._blocks:
            if block.kind == "thinking" and not block.stopped:
                yield ReasoningDone(block.signature)
            elif block.kind == "tool_use" and not block.done:
                was_cut = self._stop_reason in CUT and block is self._blocks[-1]
                if block.arguments or not was_cut:
                    yield ToolCallDone(block.id, block.name, block.arguments or "{}")

    def _reason(self) -> FinishReason:
        reason = REASONS.get(self._stop_reason, "unknown")
        return "tool_use" if self._ids and reason not in ("max_tokens", "content_filter") else reason

    def _native(self) -> Native | None:
        """The answer word for word, unless it is words and then calls: that can be said without."""
        kinds = [block.kind for block in self._blocks if block.kind != "text" or block.text.strip()]
        spoken = 1 if kinds[:1] == ["text"] else 0
        if all(kind == "tool_use" for kind in kinds[spoken:]):
            return None
        sent = [block.as_sent(signed=self._form == FORM) for block in self._blocks]
        content = [block for block in sent if block is not None]
        return Native(self._form, msgspec.json.encode(content).decode()) if content else None

    def _count(self, seen: _Counts | None) -> None:
        """Take counts that came; those that are missing, or 0 because a host only tells them once, erase nothing."""
        if seen is None:
            return
        before = self._usage
        self._usage = Usage(
            input=max(0, seen.input_tokens or 0) or before.input,
            output=max(0, seen.output_tokens or 0) or before.output,
            cache_write=max(0, seen.cache_creation_input_tokens or 0) or before.cache_write,
            cache_read=max(0, seen.cache_read_input_tokens or 0) or before.cache_read,
        )


def _lenient(value: Any) -> _Event:
    """An event whose fields have unusual types; what makes no sense is left out. Raises `ProviderError`."""
    if not isinstance(value, dict):
        raise garbage("the stream holds something that is no event")
    value = _sound(value)
    index, delta, block, message = (value.get(k) for k in ("index", "delta", "content_block", "message"))
    usage = message.get("usage") if isinstance(message, dict) else None
    return _Event(
        type=text_in(value.get("type")),
        index=index if isinstance(index, int) and not isinstance(index, bool) else None,
        delta=_delta(delta) if isinstance(delta, dict) else None,
        content_block=block if isinstance(block, dict) else None,
        message=_Message(_counts(usage)),
        usage=_counts(value.get("usage")),
        error=value.get("error"),
    )


def _delta(delta: dict[str, Any]) -> _Delta:
    arguments, citation = delta.get("partial_json"), delta.get("citation")
    if isinstance(arguments, (dict, list)):
        arguments = msgspec.json.encode(arguments).decode()
    return _Delta(
        text=text_in(delta.get("text")),
        thinking=text_in(delta.get("thinking")),
        signature=text_in(delta.get("signature")),
        partial_json=text_in(arguments),
        stop_reason=text_in(delta.get("stop_reason")),
        citation=citation if isinstance(citation, dict) else None,
    )


def _counts(usage: Any) -> _Counts | None:
    if not isinstance(usage, dict):
        return None
    return _Counts(**{name: count_in(usage.get(name)) for name in _Counts.__struct_fields__})


def _sound(value: Any, depth: int = 0) -> Any:
    """The value without half characters and endless numbers, which cannot be written as JSON again. Raises
    `ProviderError`."""
    if depth > MAX_DEPTH:
        raise garbage("the stream holds something that is nested too deeply")
    match value:
        case str():
            return text_in(value)
        case int() if abs(value) >> 63:
            return float(value) if abs(value) < 1e300 else 0
        case dict():
            return {text_in(key): _sound(inner, depth + 1) for key, inner in value.items()}
        case list():
            return [_sound(inner, depth + 1) for inner in value]
    return value
