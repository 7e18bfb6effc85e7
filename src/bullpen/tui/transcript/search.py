"""Finding words in a conversation, also where it is folded or has never been drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.events import Key
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input, Label

from bullpen.tui.transcript.items import Item


class Match(NamedTuple):
    """The so-maniest occurrence within an item."""

    item: int
    number: int


def matches(items: Sequence[Item], sought: str) -> list[Match]:
    """Where the words stand, whatever their case, from the beginning."""
    wanted = sought.lower()
    if not wanted:
        return []
    return [
        Match(index, number)
        for index, item in enumerate(items)
        for number in range(item.text.lower().count(wanted))
    ]


def row_of(strips: Sequence[Strip], sought: str, number: int) -> int | None:
    """In which row of a drawn item an occurrence stands. The words may also stand where nothing is shown of them, or be wrapped: then it is
    the last row that has them, or none."""
    wanted = sought.lower()
    found = None
    for row, strip in enumerate(strips):
        count = strip.text.lower().count(wanted)
        if count:
            found = row
            number -= count
            if number < 0:
                break
    return found


class FindBar(Horizontal):
    """Where the words are typed."""

    DEFAULT_CSS = """
    FindBar { dock: bottom; height: 1; background: $panel; display: none; }
    FindBar Input { width: 1fr; background: $panel; }
    FindBar Label { padding: 0 1; color: $secondary; }
    """

    @dataclass
    class Sought(Message):
        """The words are others now."""

        words: str

    @dataclass
    class Stepped(Message):
        """To the next match, or to the one before."""

        step: int

    class Closed(Message):
        """The search is over."""

    def compose(self) -> ComposeResult:
        yield Label("find")
        yield Input(placeholder="words, enter for the next", select_on_focus=True, compact=True)
        yield Label("", id="count")

    def open(self) -> None:
        self.display = True
        self.query_one(Input).focus()

    def close(self) -> None:
        self.display = False

    def tell(self, at: int, count: int) -> None:
        """Which match of how many one is at."""
        told = f"{at}/{count}" if count else "nothing" if self.query_one(Input).value else ""
        self.query_one("#count", Label).update(told)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Sought(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Stepped(1))

    def on_key(self, event: Key) -> None:
        steps = {"up": -1, "down": 1, "shift+enter": -1}
        if event.key == "escape":
            event.stop()
            event.prevent_default()
            self.post_message(self.Closed())
        elif event.key in steps:
            event.stop()
            self.post_message(self.Stepped(steps[event.key]))
