"""What waits for a person: shown one after the other, gone when somebody has answered, put aside and called back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rich.text import Text
from textual.widgets import Static

from bullpen.errors import BullpenError
from bullpen.present.describe import describe_skip
from bullpen.present.inert import inert_line
from bullpen.schema.api import Skip
from bullpen.schema.asks import (
    Ask,
    PermissionNotification,
    PermissionRequest,
    PermissionsSkip,
    QuestionBatchNotification,
)
from bullpen.schema.events import Event
from bullpen.tui.dialogs.permission import Permission
from bullpen.tui.dialogs.question import Questions

if TYPE_CHECKING:
    from bullpen.client.workspace import Room
    from bullpen.tui.chat import ChatScreen
    from bullpen.tui.status import Kind


class AsksRow(Static):
    """One row that says what was put aside or waits elsewhere; a click shows it."""

    DEFAULT_CSS = "AsksRow { height: 1; display: none; color: $warning; text-style: bold; }"

    def tell(self, here: int, elsewhere: int, *, is_free: bool) -> None:
        said = ["! nothing is asked: ctrl+y ends that"] if is_free else []
        if here:
            said.append(f"? {_asks(here)} {'waits' if here == 1 else 'wait'}, alt+a shows it")
        if elsewhere:
            said.append(f"{_asks(elsewhere)} in other sessions")
        self.display = bool(said)
        self.update(Text("  ".join(said)))

    async def on_click(self) -> None:
        await self.screen.run_action("do('asks')")


class Desk:
    """Looks at the room's asks whenever something moved. An ask is shown when nothing else covers the conversation."""

    def __init__(self, chat: ChatScreen) -> None:
        self._chat = chat
        self._aside: set[str] = set()
        self._shown: Permission | Questions | None = None
        self.is_free = False
        """Everything is allowed here: whoever sits down sees it."""

    async def learn(self) -> None:
        """Ask whether tools ask at all, where an event may have been missed: it is not told again."""
        with suppress(BullpenError):
            self.is_free = (await self._chat.room.call("GET", "/permissions/skip")).read(Skip).skip
            self.look()

    def take(self, event: Event) -> None:
        """Say whether anything is asked from now on, and who answered what is shown here, before it goes."""
        if isinstance(event.payload, PermissionsSkip):
            room, self.is_free = self._chat.room, event.payload.skip
            kind: Kind = "warning" if self.is_free else "info"
            self._chat.notice(describe_skip(event.payload, {room.name, room.client_id}), kind)
        shown = self._shown
        if shown is None or shown.is_answering:
            return
        match event.payload:
            case PermissionNotification(tool_call_id=call, granted=granted, denied=denied, answered_by=by):
                if call == shown.ask.tool_call_id and (granted or denied):
                    self._gone(by, "allowed it" if granted else "denied it")
            case QuestionBatchNotification(batch_id=batch, answered_by=by):
                if batch == shown.ask.id:
                    self._gone(by, "answered")
            case _:
                pass

    def _gone(self, by: str, did: str) -> None:
        self._chat.notice(f"{inert_line(by)} {did}" if by else "the ask ended with its turn")

    def look(self) -> None:
        """Close what is answered, open what waits."""
        room = self._chat.room
        self._chat.editor.free = self.is_free
        is_open = {ask.id for ask in room.asks}
        self._aside &= is_open
        shown = self._shown
        if shown is not None:
            if shown.ask.id not in is_open and not shown.is_answering:
                self._close(shown)
        elif self._chat.is_active:
            self._open_next(room)
        here = [ask for ask in room.asks if self._is_here(ask)]
        self._chat.query_one(AsksRow).tell(
            sum(ask.id in self._aside for ask in here),
            len(room.asks) - len(here),
            is_free=self.is_free,
        )

    def recall(self) -> bool:
        """Show again what was put aside; whether there was anything."""
        had = bool(self._aside)
        self._aside.clear()
        self.look()
        return had

    def _open_next(self, room: Room) -> None:
        here = [ask for ask in room.asks if self._is_here(ask)]
        waiting = [ask for ask in here if ask.id not in self._aside]
        if not waiting:
            return
        ask, count = waiting[0], len(waiting)
        dialog = (
            Permission(room, ask, count=count)
            if isinstance(ask, PermissionRequest)
            else Questions(room, ask, count=count)
        )
        self._shown = dialog

        def closed(said: str | None) -> None:
            self._shown = None
            if said is None and ask.id in {each.id for each in room.asks}:
                self._aside.add(ask.id)
            elif said:
                self._chat.notice(said)
            self.look()

        _ = self._chat.app.push_screen(dialog, closed)

    def _close(self, shown: Permission | Questions) -> None:
        """Close it, wherever it stands; what lies over it stays."""
        shown.decide()

    def _is_here(self, ask: Ask) -> bool:
        """Whether it is of the session in front, or of a sub-agent of it."""
        room = self._chat.room
        session_id = ask.session_id
        while session_id:
            if session_id == room.current_session:
                return True
            session = room.session(session_id)
            session_id = session.parent_session_id if session else ""
        return False


def _asks(count: int) -> str:
    return "1 ask" if count == 1 else f"{count} asks"
