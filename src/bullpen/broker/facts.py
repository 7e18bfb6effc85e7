"""What was committed, on its way out."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Live(Protocol):
    """Something that grows between its durable states."""

    def settle(self, body: bytes) -> None:
        """It was stored whole and looks like this."""
        ...

    def grow(self, part: str, text: str) -> bytes:
        """Take the text in and give back the JSON of the delta."""
        ...

    def whole(self) -> bytes:
        """The JSON of how it looks now."""
        ...


class Fact(NamedTuple):
    """One event on its way out. `seq` is 0 for what is not in the log.

    `live` with `growth`: the object grew by (part, text). `live` without: the object is open from here
    on and looks like `body`. A fact about a `key` without `live` closes it.
    """

    workspace: str
    kind: str
    action: str
    key: str
    body: bytes
    seq: int = 0
    live: Live | None = None
    growth: tuple[str, str] | None = None
