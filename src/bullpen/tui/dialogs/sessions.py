"""The sessions of the workspace: found by title and by what was said in them, opened, renamed, exported, deleted."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from textual.binding import Binding, BindingType
from textual.widgets import Input
from textual.worker import Worker

from bullpen.errors import BadRequest, BullpenError
from bullpen.present.describe import describe_call, describe_result
from bullpen.present.failure import one_line
from bullpen.present.inert import inert_line
from bullpen.schema.events import Event
from bullpen.schema.message import Message
from bullpen.schema.session import SearchHit, Session
from bullpen.tui.dialogs.form import Field, Form
from bullpen.tui.dialogs.keyed import Confirm
from bullpen.tui.dialogs.picker import Picker
from bullpen.tui.dialogs.rows import Option

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

LEAST_LETTERS = 3
"""From so many letters on, what was said is looked through as well."""


class Sessions(Picker):
    """Dismissed with the id of the session to go into."""

    DEFAULT_CSS = "Sessions #box { width: 100; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "rename", "give it another name", priority=True),
        Binding("ctrl+x", "delete", "delete it", priority=True),
        Binding("ctrl+e", "export", "write it to a file of this machine", priority=True),
    ]
    place = "Sessions"

    def __init__(self, room: Room) -> None:
        super().__init__(
            "Sessions",
            hint="enter open  ctrl+r rename  ctrl+e export  ctrl+x delete  esc close",
            empty="no sessions yet: the first prompt starts one",
            prompt="a title, or words that were said",
            chosen=room.current_session,
        )
        self._room = room
        self._hits: list[SearchHit] = []

    async def options(self) -> Sequence[Option]:
        return self.at_once()

    def at_once(self) -> Sequence[Option]:
        asking = {ask.session_id for ask in self._room.asks}
        listed = [
            _row(session, self._room, is_asking=session.id in asking) for session in self._room.sessions
        ]
        return [*listed, *map(self._hit, self._hits)]

    def moved(self, event: Event) -> None:
        if isinstance(event.payload, Session):
            self.reload()

    # Words that were said

    def on_input_changed(self, changed: Input.Changed) -> None:
        _: Worker[None] = self.run_worker(
            partial(self._search, changed.value), exclusive=True, group="search"
        )

    async def _search(self, words: str) -> None:
        self._hits = []
        if len(words.strip()) >= LEAST_LETTERS:
            path = f"/search?q={quote(words.strip(), safe='')}&limit=20"
            try:
                self._hits = (await self._room.call("GET", path)).read(list[SearchHit])
            except BullpenError as exc:
                self.hint(one_line(exc), is_wrong=True)
                return
        self.reload()

    def _hit(self, hit: SearchHit) -> Option:
        session = self._room.session(hit.session_id)
        title = inert_line(session.title) if session else "?"
        said = f"“{inert_line(hit.snippet)}”"
        # What the server found fits, also where its words stand in another form.
        return Option(
            f"{hit.session_id}#{hit.message_id}",
            f"{said}  in {title}",
            right=age(hit.created_at),
            also=self.filter.value,
        )

    async def pick(self, option: Option) -> None:
        self.decide(option.key.partition("#")[0])

    # What can be done with one

    @property
    def _session(self) -> Session:
        found = self._room.session(self.chosen.key.partition("#")[0]) if self.chosen else None
        if found is None:
            raise BadRequest("choose a session first")
        return found

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
        if await self.also(Confirm("Delete this session?", text, yes="yes, delete it")):
            await self._room.delete_session(session.id)
            self.hint(f"deleted: {inert_line(session.title)}")
            self.reload()

    def action_export(self) -> None:
        self.attempt(self._export())

    async def _export(self) -> None:
        session = self._session
        name = re.sub(r"[^\w-]+", "-", session.title).strip("-")[:40] or "session"
        field = Field(
            "file", "where to", value=str(Path.cwd() / f"{name}-{session.id[:8]}.md"), is_needed=True
        )
        given = await self.also(Form("Export", [field], done="write it"))
        if given:
            text = as_markdown(session, await self._room.load(session.id))
            self.hint(f"written: {write(given['file'].strip(), text)}")


def _row(session: Session, room: Room, *, is_asking: bool) -> Option:
    told = [
        f"{session.attached_clients} in it" if session.attached_clients > 1 else "",
        f"{session.message_count} messages" if session.message_count != 1 else "1 message",
        f"${session.cost:.2f}",
        age(session.updated_at),
    ]
    here = "  (here)" if session.id == room.current_session else ""
    state = "  asks" if is_asking else "  works" if session.is_busy else ""
    mark = "?" if is_asking else "●" if session.is_busy else " "
    label = f"{inert_line(session.title) or 'untitled'}{here}{state}"
    return Option(session.id, label, right=" ".join(filter(None, told)), mark=mark, also=session.id)


def age(at: float) -> str:
    """How long ago that was, in a few letters. The wire tells seconds."""
    seconds = max(time.time() - at, 0)
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return "now"


def as_markdown(session: Session, messages: Sequence[Message]) -> str:
    """A conversation to be read."""
    parts = [f"# {inert_line(session.title)}\n"]
    for message in messages:
        if message.role == "user":
            parts.append(f"## {inert_line(message.author) or 'prompt'}\n\n{message.text}\n")
        elif message.role == "assistant":
            parts += [f"{message.text}\n"] * bool(message.text)
            parts += [f"- `{describe_call(call)}`\n" for call in message.tool_calls]
        else:
            parts += [f"  - {describe_result(result)}\n" for result in message.tool_results]
    return "\n".join(parts)


def write(path: str, text: str) -> Path:
    """Write a file of this machine that does not exist yet. Raises `BadRequest`."""
    file = Path(path).expanduser()
    try:
        with file.open("x", encoding="utf-8", errors="replace") as opened:
            opened.write(text)
    except OSError as exc:
        raise BadRequest(f"{file} cannot be written: {exc.strerror}") from exc
    return file
