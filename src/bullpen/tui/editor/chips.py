"""The attachments above the text, each with a ✕ to click."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text
from textual.app import RenderResult
from textual.events import Click
from textual.message import Message
from textual.widget import Widget

from bullpen.present.inert import cut, inert_line
from bullpen.tui.editor.attachments import Chip

SIGNS = {"text": "≡", "image": "■", "mention": "@"}
LONGEST = 32


class Chips(Widget):
    """One row; what does not fit is counted at its end."""

    DEFAULT_CSS = "Chips { height: 1; display: none; }"

    @dataclass
    class Removed(Message):
        """The ✕ of an attachment was clicked."""

        chip: Chip

    def __init__(self) -> None:
        super().__init__()
        self._chips: Sequence[Chip] = ()
        self._crosses: list[int] = []
        """The column of each ✕ that is shown."""

    def show(self, chips: Sequence[Chip]) -> None:
        self._chips = chips
        self.display = bool(chips)
        self.refresh()

    def on_click(self, event: Click) -> None:
        # A finger's breadth around the cross.
        near = [n for n, column in enumerate(self._crosses) if abs(event.x - column) <= 1]
        if near:
            self.post_message(self.Removed(self._chips[near[0]]))

    def render(self) -> RenderResult:
        colours = self.app.theme_variables
        text = Text(no_wrap=True, overflow="crop")
        self._crosses = []
        for number, chip in enumerate(self._chips):
            size = f" {chip.size}" if chip.size else ""
            sign = SIGNS[chip.kind]
            piece = f" {sign} {cut(inert_line(chip.name), LONGEST)}{size} "
            rest = len(self._chips) - number
            more = f" {rest} more…"
            if text.cell_len + Text(piece).cell_len + 2 + len(more) > self.size.width and number:
                text.append(more, colours.get("faint", ""))
                break
            text.append(piece, f"on {colours['panel']}")
            self._crosses.append(text.cell_len)
            text.append("✕ ", f"{colours.get('faint', '')} on {colours['panel']}").append(" ")
        return text
