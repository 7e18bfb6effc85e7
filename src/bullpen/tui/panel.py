"""Above the editor: what the agent is at, its to-dos, and the prompts that wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import RenderResult
from textual.widget import Widget

from bullpen.present.inert import cut, inert_line
from bullpen.schema.session import Session

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

SIGNS = {"completed": "✓", "in_progress": "→", "pending": "•"}
SHOWN = 8
"""So many to-dos and so many waiting prompts are listed; the queue has a dialog of its own."""


class Panel(Widget):
    """Nothing when there is nothing to say; one row; or all of it."""

    def __init__(self) -> None:
        super().__init__()
        self._room: Room | None = None
        self._is_open = False

    def attach(self, room: Room) -> None:
        self._room = room
        self.set_interval(1, self.look)

    def toggle(self) -> None:
        self._is_open = not self._is_open
        self.look()

    def look(self) -> None:
        """Draw anew what there is."""
        session = self._session()
        lines = self._lines(session) if session else []
        self.display = bool(lines)
        self.styles.height = len(lines)
        self.refresh(layout=True)

    def render(self) -> RenderResult:
        session = self._session()
        return Text("\n").join(self._lines(session)) if session else Text()

    def _session(self) -> Session | None:
        return self._room.session(self._room.current_session) if self._room else None

    def _lines(self, session: Session) -> list[Text]:
        assert self._room is not None
        width = max(self.size.width or self.app.size.width, 20)
        waiting = self._room.waiting(session.id)
        done = sum(todo.status == "completed" for todo in session.todos)
        head = Text()
        if session.is_busy:
            head.append(f"● working {clock(self._busy_s(session))}  esc stops  ", self._colour("accent"))
        if session.todos and done < len(session.todos):
            now = next((todo for todo in session.todos if todo.status == "in_progress"), None)
            at = f": {inert_line(now.active_form or now.content)}" if now else ""
            head.append(f"to-do {done}/{len(session.todos)}{at}  ")
        if waiting:
            head.append(f"▶ {len(waiting)} waiting  ")
        if not head:
            return []
        head.truncate(width, overflow="ellipsis")
        lines = [head]
        if self._is_open:
            lines += [
                Text(cut(f"  {SIGNS[todo.status]} {inert_line(todo.content)}", width))
                for todo in session.todos[:SHOWN]
            ]
            lines += [
                Text(cut(f"  ▶ {inert_line(prompt.text)}", width), self._colour("faint"))
                for prompt in waiting[:SHOWN]
            ]
        return lines

    def _busy_s(self, session: Session) -> float:
        """Since the last prompt: also for somebody who has just come in."""
        assert self._room is not None
        prompts = (m for m in reversed(self._room.messages(session.id)) if m.role == "user")
        asked = next(prompts, None)
        return max(time.time() - asked.created_at, 0) if asked else 0

    def _colour(self, name: str) -> str:
        return self.app.theme_variables.get(name, "")


def clock(seconds: float) -> str:
    """A length of time as people say it."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m {rest:02}s" if minutes else f"{rest}s"
