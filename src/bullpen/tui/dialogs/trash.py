"""Sessions that were deleted: had back, or deleted for good. What a rewind cut off is here too."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from bullpen.present import library
from bullpen.present.inert import inert_line
from bullpen.schema.events import Event
from bullpen.schema.library import TrashedSession
from bullpen.schema.session import Session
from bullpen.tui.dialogs.keyed import Confirm
from bullpen.tui.dialogs.picker import Picker
from bullpen.tui.dialogs.rows import Option
from bullpen.tui.dialogs.sessions import age

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


class Trash(Picker):
    """Dismissed with the id of a session that is back."""

    DEFAULT_CSS = "Trash #box { width: 96; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+x", "forget", "delete it for good", priority=True)]
    place = "Trash"

    def __init__(self, room: Room) -> None:
        super().__init__(
            "Trash",
            hint="enter have it back and open it  ctrl+x delete for good  esc close",
            empty="the trash is empty",
        )
        self._room = room

    async def options(self) -> Sequence[Option]:
        return [_row(trashed) for trashed in await self._room.library.trash()]

    def moved(self, event: Event) -> None:
        """Somebody may have deleted one, or had one back."""
        if isinstance(event.payload, Session) and event.action != "updated":
            self.reload()

    async def pick(self, option: Option) -> None:
        self.decide((await self._room.library.restore(option.key)).id)

    def action_forget(self) -> None:
        if self.chosen is not None:
            self.attempt(self._forget(self.chosen))

    async def _forget(self, option: Option) -> None:
        text = f"“{option.label}” cannot be had back then."
        if await self.also(Confirm("Delete it for good?", text, yes="yes, for good")):
            await self._room.library.forget(option.key)
            self.hint("deleted for good")
            self.reload()


def _row(trashed: TrashedSession) -> Option:
    session = trashed.session
    told = [
        f"{session.message_count} messages" if session.message_count != 1 else "1 message",
        f"deleted {age(trashed.deleted_at)}",
        f"kept {library.age(trashed.until - time.time())}",
    ]
    return Option(session.id, inert_line(session.title) or "untitled", right="  ".join(told), also=session.id)
