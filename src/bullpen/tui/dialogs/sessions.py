"""The sessions of the workspace, or of all: found by title and by what was said in them, opened, forked, renamed, exported, deleted."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input
from textual.worker import Worker

from bullpen.errors import BadRequest, BullpenError
from bullpen.present import library
from bullpen.present.failure import one_line
from bullpen.present.inert import cut, inert_line
from bullpen.schema.events import Event
from bullpen.schema.library import KnownHit, KnownSession, SessionState
from bullpen.schema.session import Session
from bullpen.tui.dialogs.form import Field, Form
from bullpen.tui.dialogs.keyed import Confirm
from bullpen.tui.dialogs.picker import Twofold
from bullpen.tui.dialogs.rows import Option
from bullpen.tui.sidebar import short_path

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

LEAST_LETTERS = 3
"""From so many letters on, what was said is looked through as well."""

LISTED = 400
"""So many sessions of all projects are told, the one used last first."""

WIDE = 100
"""From so many columns on, a row has room for the model."""

MODEL_COLUMNS = 18
SHORT_ID = 12
MARKS: dict[SessionState, str] = {"running": "●", "waiting": "?", "done": "✓"}
HINT = "enter open  tab {}  ^f fork  ^r rename  ^e export  ^x delete"


class Sessions(Twofold):
    """Dismissed with the id of the session to go into."""

    DEFAULT_CSS = "Sessions #box { width: 112; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab,ctrl+a", "turn", "this project, or all of them", priority=True),
        Binding("ctrl+f", "fork", "go on in a copy of it", priority=True),
        Binding("ctrl+r", "rename", "give it another name", priority=True),
        Binding("ctrl+x", "delete", "delete it, into the trash", priority=True),
        Binding("ctrl+e", "export", "write it to a file of this machine", priority=True),
    ]
    place = "Sessions"
    headings = ("Sessions", "Sessions of all projects")

    def __init__(self, room: Room) -> None:
        super().__init__(
            self.headings[0],
            hint=HINT.format("all projects"),
            empty="no sessions yet: the first prompt starts one",
            prompt="a title, or words that were said",
            chosen=room.current_session,
        )
        self._room = room
        self._known_sessions: dict[str, KnownSession] = {}
        self._hits: list[KnownHit] = []

    # What there is

    async def options(self) -> Sequence[Option]:
        """What the mirror does not know is asked for: models, and other projects."""
        found = await self._room.library.everywhere.sessions(path=self._path, limit=LISTED)
        self._known_sessions = {known.session.id: known for known in found}
        return self.at_once()

    @property
    def _path(self) -> str:
        """Which project is meant; none is all of them."""
        return "" if self.is_turned else self._room.workspace.path

    def at_once(self) -> Sequence[Option]:
        sessions = [*self._room.sessions, *(known.session for known in self._elsewhere())]
        sessions.sort(key=lambda session: session.updated_at, reverse=True)
        waiting = set(_asking(self._room))
        return [*(self._row(session, waiting) for session in sessions), *map(self._hit, self._hits)]

    def _elsewhere(self) -> Iterator[KnownSession]:
        """Sessions of other projects. Those of this one are the room's, which is never late."""
        if self.is_turned:
            for known in self._known_sessions.values():
                if known.workspace_path != self._room.workspace.path:
                    yield known

    def _row(self, session: Session, waiting: set[str]) -> Option:
        known = self._known_sessions.get(session.id)
        own = self._room.session(session.id)
        state: SessionState = "done"
        if own is None and known is not None:
            state = known.state
        elif session.id in waiting or session.is_busy:
            state = "waiting" if session.id in waiting else "running"
        told = [
            f"{session.attached_clients} in it" if session.attached_clients > 1 else "",
            cut(inert_line(known.model), MODEL_COLUMNS) if known and self.size.width >= WIDE else "",
            f"{session.message_count} messages" if session.message_count != 1 else "1 message",
            f"${session.cost:.2f}",
            age(session.updated_at),
        ]
        said = [
            inert_line(session.title) or "untitled",
            "(here)" if session.id == self._room.current_session else "",
            state if state != "done" else "",
            f"in {short_path(known.workspace_path)}" if known and own is None else "",
        ]
        return Option(
            session.id,
            "  ".join(filter(None, said)),
            right="  ".join(filter(None, told)),
            mark=MARKS[state] if session.message_count else " ",
            also=f"{session.id} {state} {known.model if known else ''}",
        )

    def moved(self, event: Event) -> None:
        if isinstance(event.payload, Session):
            self._look_again()

    def _look_again(self) -> None:
        """Without asking anybody."""
        self._known = self.at_once()
        self.look()

    def turned(self) -> None:
        self.hint(HINT.format("this project" if self.is_turned else "all projects"))
        self._look_again()
        self._search_for(self.filter.value)

    # Words that were said

    def on_input_changed(self, changed: Input.Changed) -> None:
        self._search_for(changed.value)

    def _search_for(self, words: str) -> None:
        _: Worker[None] = self.run_worker(
            partial(self._search, words.strip()), exclusive=True, group="search"
        )

    async def _search(self, words: str) -> None:
        self._hits = []
        if len(words) >= LEAST_LETTERS:
            try:
                self._hits = await self._room.library.everywhere.search(words, path=self._path)
            except BullpenError as exc:
                self.hint(one_line(exc), is_wrong=True)
                return
        self._look_again()

    def _hit(self, known: KnownHit) -> Option:
        hit, own = known.hit, self._room.session(known.hit.session_id)
        title = inert_line(own.title if own else known.title)
        where = "" if own else f" in {short_path(known.workspace_path)}"
        # What the server found fits, also where its words stand in another form.
        return Option(
            f"{hit.session_id}#{hit.message_id}",
            f"“{inert_line(hit.snippet)}” in {title}{where}",
            right=age(hit.created_at),
            also=self.filter.value,
        )

    # What can be done with one

    @property
    def _chosen_id(self) -> str:
        if self.chosen is None:
            raise BadRequest("choose a session first")
        return self.chosen.key.partition("#")[0]

    @property
    def _session(self) -> Session:
        found = self._room.session(self._chosen_id)
        if found is None:
            raise BadRequest("it belongs to another project: enter says how to get there")
        return found

    async def pick(self, option: Option) -> None:
        session_id = self._chosen_id
        if self._room.session(session_id) is not None:
            self.decide(session_id)
            return
        command = attach_command(self._workspace_of(session_id), session_id, self.chat.host)
        self.app.copy_to_clipboard(command)
        self.chat.notice(f"copied: {command}")
        self.decide()

    def _workspace_of(self, session_id: str) -> str:
        if known := self._known_sessions.get(session_id):
            return known.workspace_path
        return next(each.workspace_path for each in self._hits if each.hit.session_id == session_id)

    def action_fork(self) -> None:
        self.attempt(self._fork())

    async def _fork(self) -> None:
        self.decide((await self._room.library.fork(self._session.id)).id)

    def action_rename(self) -> None:
        self.attempt(self._rename())

    async def _rename(self) -> None:
        session = self._session
        given = await self.also(Form("Rename", [Field("title", value=session.title, is_needed=True)]))
        if given:
            await self._room.rename(session.id, given["title"].strip())
            self.reload()

    def action_delete(self) -> None:
        self.attempt(self._delete())

    async def _delete(self) -> None:
        session = self._session
        if session.is_busy:
            raise BadRequest("it works: stop its turn first")
        text = f"“{session.title}” with its {session.message_count} messages"
        if await self.also(Confirm("Delete this session?", text, yes="yes, into the trash")):
            await self._room.delete_session(session.id)
            self.hint("in the trash: /trash has it back")
            self.reload()

    def action_export(self) -> None:
        self.attempt(self._export())

    async def _export(self) -> None:
        document = await self._room.library.everywhere.export(self._chosen_id)
        session = document.session
        name = re.sub(r"[^\w-]+", "-", session.title).strip("-")[:40] or "session"
        field = Field(
            "file", "where to", value=str(Path.cwd() / f"{name}-{self._chosen_id[:8]}.md"), is_needed=True
        )
        given = await self.also(Form("Export", [field], done="write it"))
        if given:
            self.hint(f"written: {write(given['file'].strip(), library.as_markdown(document))}")


def attach_command(path: str, session_id: str, host: str | None) -> str:
    """How a shell gets to a session of another project."""
    words = ["bullpen", "attach", path, "--session", session_id[:SHORT_ID]]
    return shlex.join([*words, "--host", host] if host else words)


def _asking(room: Room) -> Iterator[str]:
    """The sessions in which somebody has to answer, and those that sent a sub-agent that asks."""
    for ask in room.asks:
        session_id = ask.session_id
        while session_id:
            yield session_id
            session = room.session(session_id)
            session_id = session.parent_session_id if session else ""


def age(at: float) -> str:
    """How long ago that was, in a few letters. The wire tells seconds."""
    return library.age(time.time() - at)


def write(path: str, text: str) -> Path:
    """Write a file of this machine that does not exist yet. Raises `BadRequest`."""
    file = Path(path).expanduser()
    try:
        with file.open("x", encoding="utf-8", errors="replace") as opened:
            opened.write(text)
    except OSError as exc:
        raise BadRequest(f"{file} cannot be written: {exc.strerror}") from exc
    return file
