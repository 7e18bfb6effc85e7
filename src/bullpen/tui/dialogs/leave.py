"""Leaving: what goes on without oneself is said first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from bullpen.present.inert import inert_line
from bullpen.tui.dialogs.keyed import Keyed, answer
from bullpen.tui.dialogs.rows import Option, Rows

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


class Leave(Keyed[bool]):
    """The key that brought it up leaves when it is pressed again."""

    DEFAULT_CSS = "Leave #box { width: 64; } Leave #text { height: auto; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "leave", "leave", priority=True, show=False)
    ]
    preselected = "n"

    def __init__(self, room: Room | None) -> None:
        super().__init__("Leave?", "ctrl+c again leaves  esc stay")
        self._room = room

    def body(self) -> ComposeResult:
        yield Static(Text("\n".join(goes_on(self._room))), id="text")
        yield Rows()

    def answers(self) -> Sequence[Option]:
        return (answer("y", "leave"), answer("n", "stay"))

    def answered(self, key: str) -> None:
        self.decide(key == "y")

    def action_leave(self) -> None:
        self.decide(True)


def goes_on(room: Room | None) -> list[str]:
    """What the server does without us."""
    if room is None:
        return ["Nothing was begun yet."]
    busy = [session for session in room.sessions if session.is_busy]
    lines = [f"● “{inert_line(session.title)}” goes on without you." for session in busy[:5]]
    if len(busy) > 5:
        lines.append(f"and {len(busy) - 5} more")
    if room.asks:
        lines.append(f"? {len(room.asks)} of its asks wait until somebody answers.")
    return lines or ["Nothing is running. The sessions stay, and the server keeps them for the next time."]
