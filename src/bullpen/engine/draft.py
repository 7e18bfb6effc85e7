"""The assistant message of the running step, as the model has said it so far."""

from __future__ import annotations

import msgspec

from bullpen.engine.repair import as_object
from bullpen.providers.base import Native
from bullpen.schema.agent import SelectedModel
from bullpen.schema.message import (
    Finish,
    FinishPart,
    FinishReason,
    Message,
    Part,
    Reasoning,
    ReasoningPart,
    Text,
    TextPart,
    ToolCall,
    ToolCallPart,
)
from bullpen.store.growth import OpenMessage

MOST_PIECES = 4096


class Draft:
    """Grows in memory; `message` is how it looks now. `open` is its stored side."""

    def __init__(self, message: Message, open_message: OpenMessage) -> None:
        self._message = message
        self.open = open_message
        self.clear()

    def clear(self) -> None:
        """Forget what the model said: the step is tried again."""
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._reasoning: Reasoning | None = None
        self.calls: dict[str, ToolCall] = {}
        self._guessed: set[str] = set()
        """Calls whose arguments were put right, or were none at all."""
        self.native: Native | None = None
        self.broken: set[str] = set()
        """Calls whose arguments were no JSON object or never came; they are kept as `{}` and never run."""

    def become_summary(self) -> None:
        """The message is to stand for the conversation before it."""
        self._message = msgspec.structs.replace(self._message, is_summary_message=True)

    def speak_as(self, selected: SelectedModel) -> None:
        """Another model goes on with this message."""
        self._message = msgspec.structs.replace(
            self._message, model=selected.model, provider=selected.provider
        )

    @property
    def id(self) -> str:
        return self._message.id

    @property
    def text(self) -> str:
        return _joined(self._text)

    @property
    def thinking(self) -> str:
        return _joined(self._thinking)

    @property
    def signature(self) -> str:
        return self._reasoning.signature if self._reasoning else ""

    @property
    def is_thinking(self) -> bool:
        return self._reasoning is not None and not self._reasoning.finished_at

    @property
    def is_empty(self) -> bool:
        return not (self._text or self._thinking or self.calls)

    def say(self, text: str) -> str:
        """Add text; gives back what is really added (a first line break is not)."""
        if not self._text:
            text = text.removeprefix("\n")
        if text:
            _append(self._text, text)
        return text

    def think(self, text: str, now: int) -> None:
        if self._reasoning is None:
            self._reasoning = Reasoning(thinking="", signature="", started_at=now)
        _append(self._thinking, text)

    def stop_thinking(self, now: int, signature: str = "") -> None:
        if self._reasoning is not None:
            signature = signature or self._reasoning.signature
            self._reasoning = msgspec.structs.replace(self._reasoning, finished_at=now, signature=signature)

    def begin_call(self, call_id: str, name: str) -> None:
        self.calls.setdefault(call_id, ToolCall(id=call_id, name=name, input=""))

    def complete_call(self, call_id: str, name: str, arguments: str) -> None:
        meant = as_object(arguments)
        if meant is None:
            self.broken.add(call_id)
        elif meant != arguments:
            self._guessed.add(call_id)
        arguments = meant or "{}"
        self.calls[call_id] = ToolCall(id=call_id, name=name, input=arguments, finished=True)

    def distrust_guesses(self) -> None:
        """The answer was cut at its limit: what looked like a slip may be the cut."""
        for call_id in self._guessed:
            self.broken.add(call_id)
            self.calls[call_id] = msgspec.structs.replace(self.calls[call_id], input="{}")

    def break_off_calls(self) -> bool:
        """The model is done, so calls that are still coming in will never be complete; True if there were any."""
        unfinished = [call for call in self.calls.values() if not call.finished]
        for call in unfinished:
            self.broken.add(call.id)
            self.calls[call.id] = msgspec.structs.replace(call, input="{}", finished=True)
        return bool(unfinished)

    def message(self, now: int) -> Message:
        return self._message.with_parts(tuple(self._parts()), now)

    def finished(self, now: int, reason: FinishReason) -> Message:
        return self._message.with_parts(
            (*self._parts(), FinishPart(data=Finish(reason=reason, time=now))), now
        )

    def _parts(self) -> list[Part]:
        parts: list[Part] = []
        if self._reasoning is not None:
            parts.append(ReasoningPart(data=msgspec.structs.replace(self._reasoning, thinking=self.thinking)))
        if self._text:
            parts.append(TextPart(data=Text(text=self.text)))
        parts.extend(ToolCallPart(data=call) for call in self.calls.values())
        return parts


def _append(pieces: list[str], text: str) -> None:
    """A word takes ten times its length in memory when it stands alone, so many become one."""
    pieces.append(text)
    if len(pieces) > MOST_PIECES:
        _joined(pieces)


def _joined(pieces: list[str]) -> str:
    """All of it, which is one piece from now on: whoever asks again has the same text and not a copy."""
    if len(pieces) > 1:
        pieces[:] = ["".join(pieces)]
    return pieces[0] if pieces else ""
