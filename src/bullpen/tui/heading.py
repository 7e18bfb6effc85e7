"""Where there is no room for the sidebar: the session, its model and how full it is, in one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import RenderResult
from textual.widget import Widget

from bullpen.present.inert import cut, inert_line
from bullpen.tui.sidebar import NEARLY_FULL, context_share

if TYPE_CHECKING:
    from bullpen.client.workspace import Room
    from bullpen.tui.facts import Facts


class Heading(Widget):
    """One row; what does not fit is the title's end."""

    def __init__(self) -> None:
        super().__init__()
        self._title = ""
        self._told = Text()

    def look(self, room: Room, facts: Facts) -> None:
        """Draw anew what is known."""
        session = room.session(room.current_session)
        self._title = inert_line(session.title) if session else inert_line(room.workspace.path)
        told = Text()
        if facts.workspace and facts.workspace.yolo:
            told.append("! everything allowed  ", self._colour("error"))
        if facts.model:
            chosen, model = facts.model
            told.append(f"◇ {inert_line(model.name or chosen.model)}", self._colour("faint"))
            share = context_share(session, model)
            if session and share is not None:
                colour = "warning" if share >= NEARLY_FULL else "faint"
                told.append(f" {share}% ${session.cost:.2f}", self._colour(colour))
        else:
            told.append("no model yet", self._colour("warning"))
        self._told = told
        self.refresh()

    def render(self) -> RenderResult:
        room = max(self.size.width - self._told.cell_len - 2, 0)
        left = Text().append(cut(self._title, room), "bold")
        left.pad_right(max(room - left.cell_len, 0) + 2)
        return left.append_text(self._told)

    def _colour(self, name: str) -> str:
        return self.app.theme_variables.get(name, "")
