"""The conversation of one session as a widget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from bullpen.present.inert import inert
from bullpen.schema.events import RunWaiting
from bullpen.schema.jobs import CommandOutput
from bullpen.tui.preferences import Preferences

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


class Transcript(ScrollView, can_focus=True):
    """Look at the messages of a session; told when something moved."""

    def __init__(self, session_id: str, preferences: Preferences) -> None:
        super().__init__(id=f"session-{session_id or 'none'}")
        self.session_id = session_id
        self.preferences = preferences
        self._room: Room | None = None
        self._strips: list[Strip] = []

    def attach(self, room: Room) -> None:
        """From now on there is something to look at."""
        self._room = room
        self.load()

    def load(self) -> None:
        """Look at everything anew: the messages may be others."""
        if self._room is None:
            return
        lines = [
            line
            for message in self._room.messages(self.session_id)
            for line in f"{message.role}: {inert(message.text)}".split("\n")
        ]
        self._strips = [Strip(Text(line).render(self.app.console)) for line in lines]
        self.virtual_size = Size(self.size.width, len(self._strips))
        self.scroll_end(animate=False)
        self.refresh()

    def changed(self, message_id: str) -> None:
        """A message came, grew, ended or went."""
        self.load()

    def output(self, output: CommandOutput) -> None:
        """A running command has printed something."""

    def waiting(self, waiting: RunWaiting | None) -> None:
        """The model's host refused, and the turn waits; or it goes on."""

    def follow(self) -> None:
        """Go to the end and stay there."""
        self.scroll_end(animate=False)

    def render_line(self, y: int) -> Strip:
        line = y + self.scroll_offset.y
        return (
            self._strips[line].adjust_cell_length(self.size.width)
            if line < len(self._strips)
            else Strip.blank(self.size.width)
        )
