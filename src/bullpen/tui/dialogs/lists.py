"""Lists that are only looked at: who is here, what it cost, what was noticed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bullpen.present.inert import inert_line
from bullpen.present.spending import spent_line
from bullpen.schema.agent import Group
from bullpen.tui.dialogs.picker import Picker
from bullpen.tui.dialogs.rows import Option
from bullpen.tui.dialogs.sessions import age
from bullpen.tui.dialogs.viewer import Viewer

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

GROUPS: dict[Group, str] = {
    "model": "By model",
    "person": "By person",
    "session": "By session",
    "purpose": "By purpose",
    "day": "By day",
}
LOOK = "type to filter  esc close"


class People(Picker):
    """Picked is the session somebody is in."""

    def __init__(self, room: Room) -> None:
        super().__init__("Who is here", hint="enter go where they are  esc close", empty="nobody")
        self._room = room

    async def options(self) -> Sequence[Option]:
        rows = []
        for client in await self._room.clients():
            session = self._room.session(client.current_session)
            where = f"in “{inert_line(session.title)}”" if session else ""
            me = " (you)" if client.client_id == self._room.client_id else ""
            name = f"{inert_line(client.name) or client.client_id[:8]}{me}"
            since = f"since {age(client.attached_at)}" if client.attached_at else ""
            rows.append(
                Option(client.client_id, f"{name}  {where}", right=since, also=client.current_session)
            )
        return rows

    async def pick(self, option: Option) -> None:
        if option.also:
            self.decide(option.also)


class Cost(Picker):
    """What model calls cost in this workspace, seen from several sides."""

    DEFAULT_CSS = "Cost #box { width: 110; }"

    def __init__(self, room: Room) -> None:
        super().__init__("What it cost", hint=LOOK, empty="nothing was spent yet")
        self._room = room

    async def options(self) -> Sequence[Option]:
        rows: list[Option] = []
        for by, heading in GROUPS.items():
            for row in await self._room.spending(by):
                session = self._room.session(row.key) if by == "session" else None
                name = inert_line(session.title if session else row.key) or "(nobody)"
                rows.append(Option(f"{by}:{row.key}", f"{name}  {spent_line(row)}", group=heading))
        if self._room.current_session:
            rows += await self._budget()
        return rows

    async def _budget(self) -> list[Option]:
        session = self._room.session(self._room.current_session)
        budget = (await self._room.choices(self._room.current_session)).budget
        if session is None:
            return []
        limits = []
        if budget:
            limits = [
                f"{name} ${limit:.2f}"
                for name, limit in (("run", budget.run), ("session", budget.session))
                if limit
            ]
        said = f"of {', '.join(limits)}" if limits else "without a limit of its own"
        return [Option("budget", f"${session.cost:.4f} {said}", group="This session")]

    async def pick(self, option: Option) -> None:
        """There is nothing to take."""


class Notices(Picker):
    """What was told in the last row, the latest first."""

    def __init__(self, notices: Sequence[tuple[str, str]]) -> None:
        super().__init__("Notices", hint="enter read it whole  esc close", empty="nothing was told yet")
        self._notices = notices

    def at_once(self) -> Sequence[Option]:
        marks = {"error": "✗", "warning": "!"}
        return [
            Option(str(number), text, mark=marks.get(kind, " "), also=kind)
            for number, (kind, text) in reversed(list(enumerate(self._notices)))
        ]

    async def options(self) -> Sequence[Option]:
        return self.at_once()

    async def pick(self, option: Option) -> None:
        await self.also(Viewer("Notice", option.label))
