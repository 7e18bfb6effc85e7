"""What an item is drawn with: the width, the colours, and all that is not in the item itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from bullpen.schema.message import Message
from bullpen.schema.session import Session
from bullpen.tui.transcript.markdown import Markdown
from bullpen.tui.transcript.palette import Palette

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Spent(NamedTuple):
    """Dollars for a turn, and the tokens that the session holds after it."""

    cost: float
    tokens: int


@dataclass(slots=True)
class Scene:
    """One conversation as it is looked at. `frame` is where things that move stand, None when nothing may move."""

    width: int
    palette: Palette
    me: str = ""
    diff: Literal["auto", "unified", "split"] = "auto"
    frame: int | None = None
    now: float = 0
    """By the wall clock, as messages have it."""
    asking: frozenset[str] = frozenset()
    """The calls that wait for a person."""
    printed: Mapping[str, str] = field(default_factory=dict)
    """By call, the end of what a running command has printed so far."""
    unfolded: set[str] = field(default_factory=set)
    has_times: bool = False
    spent: Mapping[str, Spent] = field(default_factory=dict)
    """By the message that ended it, what a turn took."""
    session: Callable[[str], Session | None] = lambda _: None
    messages: Callable[[str], list[Message]] = lambda _: []
    moved_at: Mapping[str, float] = field(default_factory=dict)
    """By the session of a sub-agent, when it was last heard of."""
    texts: dict[str, Markdown] = field(default_factory=dict)
    """By item, the text that may grow."""

    @property
    def spinner(self) -> str:
        return "●" if self.frame is None else SPINNER[self.frame % len(SPINNER)]

    def text_of(self, key: str, indent: int) -> Markdown:
        """The text of an item, with what is already drawn of it."""
        return self.texts.setdefault(key, Markdown(self.width, self.palette, indent))
