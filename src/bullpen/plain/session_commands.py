"""Slash commands about sessions: found, renamed, forked, rewound, written to a file, thrown away and had back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from bullpen.client.workspace import Room
from bullpen.errors import BadRequest
from bullpen.plain.desk import Desk
from bullpen.plain.view import View
from bullpen.present.inert import cut, inert_line
from bullpen.present.sessions import find_session
from bullpen.present.undoing import preview_lines
from bullpen.schema.message import Message
from bullpen.schema.session import Session
from bullpen.schema.wire import encode

PROMPT_WIDTH = 60
HITS = 10


class SessionCommands:
    """Numbers mean what stood in the list that was shown last."""

    def __init__(self, room: Room, view: View, desk: Desk) -> None:
        self._room = room
        self._view = view
        self._desk = desk
        self._listed: list[Session] = []
        self._prompts: list[Message] = []
        self._trash: list[str] = []
        self.all: dict[str, Callable[[str], Awaitable[None]]] = {
            "sessions": self._sessions,
            "switch": self._switch,
            "new": self._new,
            "rename": self._rename,
            "search": self._search,
            "everywhere": self._everywhere,
            "fork": self._fork,
            "rewind": self._rewind,
            "export": self._export,
            "delete": self._delete,
            "trash": self._show_trash,
            "restore": self._restore,
        }

    def here(self) -> Session | None:
        """The session one is in; a note when there is none."""
        session = self._room.session(self._room.current_session)
        if session is None:
            self._view.note("there is no session yet")
        return session

    # Going from one to another

    async def _sessions(self, _rest: str) -> None:
        self._listed = self._room.sessions
        rows = [f"  {number:>2} {self._describe(session)}" for number, session in enumerate(self._listed, 1)]
        self._view.block("\n".join(rows) or "  no sessions yet: the first prompt starts one")

    def _describe(self, session: Session) -> str:
        marks = [
            "here" if session.id == self._room.current_session else "",
            "busy" if session.is_busy else "",
            f"{session.attached_clients} in it" if session.attached_clients else "",
        ]
        told = ", ".join(mark for mark in marks if mark)
        return f"{inert_line(session.title) or 'untitled'}  {session.id[:8]}  {told}".rstrip()

    async def _switch(self, wanted: str) -> None:
        if session := self._meant(wanted):
            await self._enter(session)

    def _meant(self, wanted: str) -> Session | None:
        """The session of a number or an id; a note when it is none."""
        listed = self._listed or self._room.sessions
        if wanted.isdecimal() and 1 <= int(wanted) <= len(listed):
            return listed[int(wanted) - 1]
        if wanted and not wanted.isdecimal():
            return find_session(self._room, wanted)
        self._view.note("which one? /sessions numbers them")
        return None

    async def _enter(self, session: Session) -> None:
        await self._view.enter(session)
        self._desk.show(again=True)

    async def _new(self, title: str) -> None:
        session = await self._room.new_session(title or "New Session")
        self._view.start_over()
        self._view.block(f"— new session {session.id[:8]} —")

    async def _search(self, words: str) -> None:
        if not words:
            self._view.note("what for? /search and the words; /everywhere searches all projects")
            return
        rows = []
        for hit in await self._room.library.search(words, limit=HITS):
            session = self._room.session(hit.session_id)
            title = inert_line(session.title) if session else hit.session_id[:8]
            rows.append(f"  {hit.session_id[:8]}  “{title}”  {inert_line(hit.snippet)}")
        self._view.block("\n".join(rows) or "  nothing was found")

    async def _everywhere(self, words: str) -> None:
        if words:
            rows = [
                f"  {inert_line(found.workspace_path)}  {found.hit.session_id[:8]}  “{inert_line(found.title)}”  "
                f"{inert_line(found.hit.snippet)}"
                for found in await self._room.library.everywhere.search(words, limit=HITS)
            ]
        else:
            rows = [
                f"  {inert_line(known.workspace_path)}  {known.session.id[:8]}  “{inert_line(known.session.title)}”  "
                f"{known.state}"
                for known in await self._room.library.everywhere.sessions()
            ]
        hint = ["  'bullpen attach DIR --session ID' goes there"] if rows else ["  nothing was found"]
        self._view.block("\n".join([*rows, *hint]))

    # Changing one

    async def _rename(self, title: str) -> None:
        session = self.here()
        if session and title:
            renamed = await self._room.rename(session.id, title)
            self._view.note(f"now called “{inert_line(renamed.title)}”")
        elif session:
            self._view.note("what is it to be called? /rename and the words")

    async def _fork(self, title: str) -> None:
        if session := self.here():
            await self._enter(await self._room.library.fork(session.id, title=title))

    async def _rewind(self, wanted: str) -> None:
        """Prompts by number; the preview of one; and with `yes` or `yes files` what was shown."""
        session = self.here()
        if session is None:
            return
        number, _, how = wanted.partition(" ")
        if not number.isdecimal():
            self._prompts = [m for m in self._room.messages(session.id) if m.role == "user" and m.text]
            rows = [
                f"  {n:>2} {cut(inert_line(m.text), PROMPT_WIDTH)}" for n, m in enumerate(self._prompts, 1)
            ]
            self._view.block("\n".join(rows) or "  nothing was said yet")
            return
        if not 1 <= int(number) <= len(self._prompts):
            self._view.note("which one? /rewind numbers the prompts")
            return
        message = self._prompts[int(number) - 1]
        if how not in ("yes", "yes files"):
            await self._show_rewind(session, message, number)
            return
        done = await self._room.library.rewind(session.id, message.id, files=how == "yes files")
        self._view.start_over()
        self._view.show_all()
        self._view.note(f"{done.removed} messages went to the trash; you had said: {inert_line(done.text)}")

    async def _show_rewind(self, session: Session, message: Message, number: str) -> None:
        preview = await self._room.library.preview_rewind(session.id, message.id)
        lines = [
            f"  {len(preview.messages)} messages would go, from “{cut(inert_line(preview.text), PROMPT_WIDTH)}” on"
        ]
        if preview.undo:
            lines += [f"  {line}" for line in preview_lines(preview.undo, verb="undo")]
        lines.append(f"  /rewind {number} yes does it; /rewind {number} yes files undoes the files as well")
        self._view.block("\n".join(lines))

    async def _export(self, wanted: str) -> None:
        session = self.here()
        if session is None:
            return
        file = await anyio.Path(wanted or f"{session.id[:8]}.bullpen.json").expanduser()
        document = await self._room.library.export(session.id)
        try:
            async with await anyio.open_file(file, "xb") as out:
                await out.write(encode(document))
        except OSError as exc:
            raise BadRequest(f"{file} cannot be written: {exc.strerror}") from exc
        self._view.note(f"written to {inert_line(str(file))}; 'bullpen session import' takes it in elsewhere")

    # Away and back

    async def _delete(self, wanted: str) -> None:
        number, _, sure = wanted.partition(" ")
        session = self._meant(number)
        if session is None:
            return
        if sure != "yes":
            self._view.note(f"throw “{inert_line(session.title)}” away? /delete {number} yes does it")
            return
        await self._room.delete_session(session.id)
        self._view.note("in the trash: /trash lists it, /restore has it back")

    async def _show_trash(self, _rest: str) -> None:
        found = await self._room.library.trash()
        self._trash = [each.session.id for each in found]
        rows = [
            f"  {number:>2} {inert_line(each.session.title) or 'untitled'}  {each.session.id[:8]}"
            for number, each in enumerate(found, 1)
        ]
        self._view.block("\n".join(rows) or "  the trash is empty")

    async def _restore(self, wanted: str) -> None:
        if not wanted.isdecimal() or not 1 <= int(wanted) <= len(self._trash):
            self._view.note("which one? /trash numbers them")
            return
        await self._enter(await self._room.library.restore(self._trash[int(wanted) - 1]))
