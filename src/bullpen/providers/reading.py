"""What the readers of answers share: the lines of an event stream, and values whose types cannot be trusted."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any
from uuid import uuid4

from bullpen.errors import ProviderError
from bullpen.providers.base import ModelEvent

MAX_LINE_BYTES = 8 << 20
"""A line that does not end. The longest honest ones are whole tool calls, far below this."""

MAX_ARGUMENT_CHARS = 8 << 20
MAX_CALLS = 128
"""Calls in one step. More is a model that runs in circles."""


class AnswerReader(ABC):
    """Takes the bytes of one answer in, gives events out. Whatever a host sends, the outcome is events or
    `ProviderError`."""

    def __init__(self) -> None:
        self.done = False
        """Nothing more is to come."""
        self.finish = ""
        """Set once the answer is complete; counts may still follow."""
        self.moved = False
        """Something came that is no event yet, such as a piece of a call's arguments. The caller resets it."""
        self._events: list[ModelEvent] = []
        self._rest: list[bytes] = []
        self._rest_bytes = 0

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
                raise garbage("a line does not end")
        self._events = events
        for line in lines:
            if line.startswith(b"data:"):
                self._line(line[5:])
            elif line.startswith(b"{"):
                # Some hosts answer in plain JSON once something is wrong.
                self._line(line)
        return events

    @abstractmethod
    def _line(self, line: bytes) -> None:
        """Take the data of one line; what it means goes to `_events`. Raises `ProviderError`."""

    @abstractmethod
    def end(self) -> list[ModelEvent]:
        """The last events, once the connection has ended or `done` is set. Raises `ProviderError`."""

    @abstractmethod
    def whole(self, raw: bytes) -> list[ModelEvent]:
        """The events of an answer that came in one piece, from a host that does not stream."""


def loads(raw: bytes) -> Any:
    """JSON by the patient decoder of the standard library. Raises `ProviderError`."""
    try:
        return json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as exc:
        raise garbage("the stream holds something that is not JSON") from exc


def count_in(value: Any) -> int | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return int(value) if is_number and abs(value) < 1e15 else None


def list_in(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text_in(value: Any) -> str:
    """Text, also from a list of text parts; half characters become the replacement sign."""
    if isinstance(value, list):
        return "".join(text_in(v.get("text")) for v in value if isinstance(v, dict))
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def made_up_id() -> str:
    """For a call that came without an id, or with one that another call has: results are paired by id."""
    return f"call_{uuid4().hex}"


def garbage(what: str) -> ProviderError:
    return ProviderError(
        f"the model's answer cannot be read: {what}", title="Stream Transport Error", retryable=True
    )


def ended_early(without: str) -> ProviderError:
    return ProviderError(
        f"the model's answer ended early, without {without}", title="Stream Transport Error", retryable=True
    )
