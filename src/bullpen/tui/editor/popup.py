"""The list above the caret: what could be meant, the best nearest to where one types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text
from textual.app import RenderResult
from textual.events import Click
from textual.geometry import Offset
from textual.message import Message
from textual.widget import Widget

from bullpen.present.inert import cut, inert_line

ROWS = 10
COLUMNS = 100


class Choice(NamedTuple):
    """One row. `value` is what accepting it means, `detail` what is said about it."""

    value: str
    label: str
    detail: str = ""
    source: tuple[str, str] = ("", "")
    """For a mention: the tool server, none for a file, and the path or address."""
    takes: str = ""
    """For a command: which words may follow it."""


class Popup(Widget):
    """Shows choices, the first of them lowest. It never has the focus: the editor moves in it."""

    DEFAULT_CSS = """
    Popup { overlay: screen; display: none; width: auto; height: auto; background: $panel; }
    """

    class Picked(Message):
        """A row was clicked."""

    def __init__(self) -> None:
        super().__init__()
        self._choices: Sequence[Choice] = ()
        self._place = 0
        self._hint = ""

    @property
    def is_open(self) -> bool:
        """Whether there is something to accept."""
        return bool(self._choices)

    @property
    def chosen(self) -> Choice:
        return self._choices[self._place]

    def show(self, choices: Sequence[Choice], caret: Offset) -> None:
        """Show these above a place of the screen; the row one was on stays chosen while it is among them."""
        before = self._choices[self._place].value if self._choices else None
        self._choices = choices[:ROWS]
        values = [choice.value for choice in self._choices]
        self._place = values.index(before) if self._place and before in values else 0
        self._hint = ""
        self._put(caret)

    def hint(self, text: str, caret: Offset) -> None:
        """Show a line that only tells something."""
        self._choices, self._place, self._hint = (), 0, inert_line(text)
        self._put(caret)

    def close(self) -> None:
        self._choices, self._place, self._hint = (), 0, ""
        self.display = False

    def move(self, step: int) -> None:
        """Go up the rows, round and round."""
        if self._choices:
            self._place = (self._place + step) % len(self._choices)
            self.refresh()

    def on_click(self, event: Click) -> None:
        row = len(self._choices) - 1 - event.y
        if 0 <= row < len(self._choices):
            self._place = row
            self.post_message(self.Picked())

    def _put(self, caret: Offset) -> None:
        lines = self._lines()
        self.display = bool(lines)
        if not lines:
            return
        width = min(max(line.cell_len for line in lines), COLUMNS, self.app.size.width)
        self.styles.width, self.styles.height = width, len(lines)
        left = max(min(caret.x, self.app.size.width - width), 0)
        self.absolute_offset = Offset(left, max(caret.y - len(lines), 0))
        self.refresh(layout=True)

    def _lines(self) -> list[Text]:
        faint = self.app.theme_variables.get("faint", "")
        if self._hint:
            return [Text(f" {self._hint} ", faint)]
        room = min(COLUMNS, self.app.size.width) - 2
        labels = [cut(inert_line(choice.label), room) for choice in self._choices]
        wide = max((Text(label).cell_len for label in labels), default=0)
        lines = []
        for choice, label in zip(self._choices, labels, strict=True):
            line = Text(f" {label}")
            detail = cut(inert_line(choice.detail), max(room - wide - 2, 0)) if choice.detail else ""
            line.pad_right(wide - Text(label).cell_len + 1)
            lines.append(line.append(f" {detail} " if detail else "", faint))
        return lines

    def render(self) -> RenderResult:
        lines = self._lines()
        if self.is_open:
            chosen = lines[self._place]
            chosen.pad_right(max(self.size.width - chosen.cell_len, 0))
            colours = self.app.theme_variables
            chosen.stylize(f"{colours['background']} on {colours['primary']}")
        return Text("\n", no_wrap=True, overflow="crop").join(reversed(lines))
