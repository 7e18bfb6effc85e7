"""The open sessions, side by side. One alone needs no row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import RenderResult
from textual.events import Click
from textual.message import Message
from textual.widget import Widget

from bullpen.present.inert import cut, inert_line

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

LONGEST = 24


class Tabs(Widget):
    """Which sessions are open, which one is looked at, and which of the others works or waits for a person."""

    @dataclass
    class Picked(Message):
        """A tab was clicked."""

        session_id: str

    def __init__(self) -> None:
        super().__init__()
        self._open: list[str] = []
        self._text = Text()
        self._ends: list[tuple[int, str]] = []
        """Up to which column each tab goes."""

    def add(self, session_id: str) -> None:
        self._open.append(session_id)

    def close(self, session_id: str) -> str:
        """Take it out; the answer is the one to go to, or nothing when it was the last."""
        following = self.beside(session_id, -1)
        if following:
            self._open.remove(session_id)
        return following

    def drop(self, session_id: str) -> str:
        """Take it out, also as the last; the answer is the one to go to, or nothing."""
        following = self.beside(session_id, -1)
        if session_id in self._open:
            self._open.remove(session_id)
        return following

    def beside(self, session_id: str, step: int) -> str:
        """The session so many tabs further, or nothing when there is no other."""
        if session_id not in self._open or len(self._open) < 2:
            return ""
        return self._open[(self._open.index(session_id) + step) % len(self._open)]

    def look(self, room: Room) -> None:
        """Draw anew what there is."""
        asking = {ask.session_id for ask in room.asks}
        text = Text()
        ends: list[tuple[int, str]] = []
        for number, session_id in enumerate(self._open, 1):
            session = room.session(session_id)
            mark = "?" if session_id in asking else "●" if session and session.is_busy else " "
            title = cut(inert_line(session.title) if session else "gone", LONGEST)
            style = "reverse" if session_id == room.current_session else ""
            text.append(f" {number}{mark} {title} ", style).append(" ")
            ends.append((text.cell_len, session_id))
        self._text, self._ends = text, ends
        self.display = len(self._open) > 1
        self.refresh()

    def on_click(self, event: Click) -> None:
        if hit := next((session_id for end, session_id in self._ends if event.x < end), None):
            self.post_message(self.Picked(hit))

    def render(self) -> RenderResult:
        return self._text
