"""The last row: keys on the left or what has just happened, and whether one is connected on the right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from rich.text import Text
from textual.app import RenderResult
from textual.reactive import reactive
from textual.widget import Widget

from bullpen.present.inert import cut, inert_line

Link = Literal["attaching", "connected", "behind", "offline"]
Kind = Literal["info", "warning", "error"]

BADGES: dict[Link, tuple[str, str]] = {
    "attaching": ("◌ attaching", "$warning"),
    "connected": ("● connected", "$success"),
    "behind": ("◐ behind", "$warning"),
    "offline": ("○ offline", "$error"),
}

SHOWN_S: dict[Kind, float] = {"info": 5, "warning": 10, "error": 20}


class Status(Widget):
    """Notices cover the help for a while; all of them can be read again (`notices`)."""

    link: reactive[Link] = reactive("attaching")
    people: reactive[int] = reactive(1)
    help: reactive[str] = reactive("")
    _notice: reactive[tuple[Kind, str] | None] = reactive(None)

    def show(self, text: str, kind: Kind) -> None:
        """Show a notice for a few seconds."""
        self._notice = (kind, inert_line(text))
        self.set_timer(SHOWN_S[kind], self._clear_if(self._notice))

    def _clear_if(self, shown: tuple[Kind, str]) -> Callable[[], None]:
        def clear() -> None:
            if self._notice == shown:
                self._notice = None

        return clear

    def render(self) -> RenderResult:
        colours = self.app.theme_variables
        words, colour = BADGES[self.link]
        people = f"{self.people} here  " if self.people > 1 else ""
        badge = Text(people, style=colours.get("faint", "")).append(words, colours[colour.removeprefix("$")])
        room = max(self.size.width - badge.cell_len - 1, 0)
        if self._notice:
            kind, told = self._notice
            style = "" if kind == "info" else colours[kind]
            left = Text(cut(told, room), style=style)
        else:
            left = Text(cut(self.help, room), style=colours.get("faint", ""))
        left.pad_right(max(room - left.cell_len, 0) + 1)
        return left.append_text(badge)
