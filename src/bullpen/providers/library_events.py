"""The library's stream as our events.

The end of a part is not taken for the end of a call: where calls interleave, arguments still come after it. So calls are
complete when the stream is, and only if the host itself said that its answer is finished.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

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
from bullpen.providers.library_messages import native_of
from bullpen.schema.message import FinishReason

REASONS: dict[str, FinishReason] = {
    "stop": "end_turn",
    "tool_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "content_filter",
}

ON_THE_WIRE = ("finish_reason", "block_reason", "refusal")
"""Where the library keeps what the host itself gave as the reason for its end."""

MAX_CALLS = 128
"""Calls in one step. More is a model that runs in circles."""

PARAGRAPH = "\n\n"


class Reader:
    """One answer. Separate thoughts and messages in it become paragraphs."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._is_reasoning = False
        self._has_reasoned = False
        self._text_id: str | None = None
        self._before_text = self._before_thought = ""
        self._begun: dict[str, str] = {}

    def read(self, event: ModelResponseStreamEvent) -> list[ModelEvent]:
        """Our events in one of the library's. Raises `ProviderError`."""
        match event:
            case PartStartEvent(part=TextPart() as part):
                if self._text_id and part.id and part.id != self._text_id:
                    self._before_text = PARAGRAPH
                self._text_id = part.id or self._text_id
                return self._text(part.content)
            case PartStartEvent(part=ThinkingPart() as part):
                self._before_thought = PARAGRAPH if self._has_reasoned else ""
                return self._thought(part.content)
            case PartStartEvent(part=ToolCallPart() as part):
                return [*self._call_begins(part)]
            case PartDeltaEvent(delta=TextPartDelta() as delta):
                return self._text(delta.content_delta)
            case PartDeltaEvent(delta=ThinkingPartDelta() as delta):
                return self._thought(delta.content_delta or "")
            case PartEndEvent(part=ThinkingPart()) if self._is_reasoning:
                self._is_reasoning = False
                return [ReasoningDone()]
        return []

    def end(self, response: ModelResponse) -> Iterator[ModelEvent]:
        """The last events, once the stream has ended. Raises `ProviderError`."""
        details = response.provider_details or {}
        # Not the library's own word for it, which it makes up where a host gives none.
        said = next((details[name] for name in ON_THE_WIRE if details.get(name)), None)
        if said is None:
            raise ProviderError(
                "the model's answer ended early, without a finish reason",
                title="Stream Transport Error",
                retryable=True,
            )
        if response.finish_reason == "error":
            raise ProviderError(f"the model broke its answer off: {said}", retryable=True)
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        is_cut = response.finish_reason == "length"
        for call in calls:
            yield from self._call_begins(call)
            # A cut answer may have cut the arguments off as well; else no arguments mean an empty object.
            arguments = call.args if isinstance(call.args, str) else call.args_as_json_str()
            if not call.args:
                arguments = "" if is_cut else "{}"
            yield ToolCallDone(call.tool_call_id, call.tool_name, arguments)
        reason = REASONS.get(response.finish_reason or "", "unknown")
        if calls and reason not in ("max_tokens", "content_filter"):
            reason = "tool_use"
        yield StepDone(reason, _usage(response), native_of(response, self._form))

    def _text(self, text: str) -> list[ModelEvent]:
        if not text:
            return []
        text, self._before_text = self._before_text + text, ""
        return [TextDelta(text)]

    def _thought(self, text: str) -> list[ModelEvent]:
        if not text:
            return []
        self._is_reasoning = self._has_reasoned = True
        text, self._before_thought = self._before_thought + text, ""
        return [ReasoningDelta(text)]

    def _call_begins(self, call: ToolCallPart) -> Iterator[ModelEvent]:
        if self._begun.get(call.tool_call_id) == call.tool_name:
            return
        if call.tool_call_id in self._begun:
            raise unreadable("two tool calls have the same id")
        if len(self._begun) >= MAX_CALLS:
            raise unreadable(f"more than {MAX_CALLS} tool calls in one step")
        self._begun[call.tool_call_id] = call.tool_name
        yield ToolCallStarted(call.tool_call_id, call.tool_name)


def is_meaningful(event: ModelResponseStreamEvent) -> bool:
    """Whether the model got further: an announcement without content is none."""
    match event:
        case PartStartEvent(part=TextPart(content="") | ThinkingPart(content="")):
            return False
        case PartDeltaEvent(delta=TextPartDelta(content_delta="")):
            return False
        case PartDeltaEvent(delta=ToolCallPartDelta(tool_name_delta=None, args_delta=None | "")):
            return False
    return isinstance(event, PartStartEvent | PartDeltaEvent)


def unreadable(what: str) -> ProviderError:
    return ProviderError(
        f"the model's answer cannot be read: {what}", title="Stream Transport Error", retryable=True
    )


def _usage(response: ModelResponse) -> Usage:
    """The library counts what came from the cache as input; we do not."""
    seen = response.usage
    read, write = seen.cache_read_tokens, seen.cache_write_tokens
    return Usage(
        input=max(0, seen.input_tokens - read - write),
        output=max(0, seen.output_tokens),
        cache_read=max(0, read),
        cache_write=max(0, write),
    )
