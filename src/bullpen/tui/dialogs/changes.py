"""Turns that changed files: what each did, and undoing it whole, by file, or place by place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from bullpen.errors import BadRequest
from bullpen.present.inert import inert_line
from bullpen.present.undoing import done_lines, preview_lines
from bullpen.schema.changes import FileUndo, TurnChanges, TurnSummary, UndoPreview
from bullpen.schema.events import Event
from bullpen.tui.dialogs.diff import undoing
from bullpen.tui.dialogs.keyed import Confirm
from bullpen.tui.dialogs.picker import Picker
from bullpen.tui.dialogs.rows import Option
from bullpen.tui.dialogs.sessions import age
from bullpen.tui.dialogs.viewer import Viewer

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

STATES = {"changed": "", "partly": "partly undone", "undone": "undone", "forgotten": "too old to undo"}


class Changes(Picker):
    """The turns of this session, the latest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "redo", "take the last undo back", priority=True)
    ]
    place = "Changed files"

    def __init__(self, room: Room) -> None:
        super().__init__(
            "Changed files",
            hint="enter look and undo  ctrl+r redo the last undo  esc close",
            empty="no turn of this session changed files",
        )
        self._room = room

    async def options(self) -> Sequence[Option]:
        return [_turn(turn) for turn in await self._room.changes()] if self._room.current_session else []

    def moved(self, event: Event) -> None:
        if isinstance(event.payload, TurnChanges):
            self.reload()

    async def pick(self, option: Option) -> None:
        await self.also(Undo(self._room, int(option.key)))
        self.reload()

    def action_redo(self) -> None:
        self.attempt(self._redo())

    async def _redo(self) -> None:
        preview = await self._room.preview_redo()
        if await self.also(
            Confirm(
                "Redo this?", "\n".join(preview.notes), yes="yes, redo it", changes=undoing(preview.files)
            )
        ):
            done = await self._room.redo(fingerprint=preview.fingerprint)
            self.hint(next(done_lines(done, verb="redid", back="enter undoes it again")))
            self.reload()


def _turn(turn: TurnSummary) -> Option:
    more = f" and {turn.more} more" if turn.more else ""
    paths = ", ".join(map(inert_line, turn.paths))
    label = f"{turn.turn} {inert_line(turn.prompt)[:40]}  {paths}{more}"
    fork = "before the fork" if turn.inherited else ""
    said = " ".join(filter(None, (fork, STATES[turn.state], age(turn.created_at))))
    return Option(str(turn.turn), label, right=said, mark="✓" if turn.state == "undone" else " ")


class Undo(Picker):
    """What undoing a turn would do now: all of it, a file of it, or one place."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+o", "whole", "look at all of it", priority=True),
    ]
    place = "Undo"

    def __init__(self, room: Room, turn: int) -> None:
        super().__init__(
            f"Undo turn {turn}",
            hint="enter undo that  ctrl+o look at all of it  esc back",
            empty="there is nothing to undo",
        )
        self._room = room
        self._turn = turn
        self._preview: UndoPreview | None = None

    async def options(self) -> Sequence[Option]:
        self._preview = await self._room.preview_undo(self._turn)
        rows = [row for file in self._preview.files for row in _file(file)]
        if not rows:
            return []
        conflicts = f", {self._preview.conflicts} in conflict" if self._preview.conflicts else ""
        return [Option("all", f"all of it{conflicts}", off=bool(self._preview.conflicts)), *rows]

    async def pick(self, option: Option) -> None:
        preview = self._preview
        if preview is None:
            raise BadRequest("what it would do is not known yet")
        kind, _, wanted = option.key.partition(":")
        files = [file for file in preview.files if kind != "file" or file.path == wanted]
        changes = undoing(files, wanted if kind == "hunk" else "")
        if not await self.also(
            Confirm("Undo this?", "\n".join(preview.notes), yes="yes, undo it", changes=changes)
        ):
            return
        done = await self._room.undo(
            self._turn,
            files=[wanted] if kind == "file" else (),
            hunks=[wanted] if kind == "hunk" else (),
            fingerprint=preview.fingerprint,
        )
        self.hint(next(done_lines(done, verb="undid", back="ctrl+r in the list takes it back")))
        self.reload()

    def action_whole(self) -> None:
        if self._preview is not None:
            text = "\n".join(preview_lines(self._preview, verb="undo"))
            self.attempt(self._look(text))

    async def _look(self, text: str) -> None:
        await self.also(Viewer(f"Undo turn {self._turn}", text))


def _file(file: FileUndo) -> Iterator[Option]:
    can = file.status in ("ready", "merge")
    lines = f"+{file.additions} −{file.removals}"
    said = lines if can else f"{file.status}: {inert_line(file.reason)}"
    path = inert_line(file.path)
    yield Option(
        f"file:{file.path}",
        path,
        right=file.change,
        group=f"{path}  {said}",
        mark=" " if can else "!",
        off=not can,
    )
    for hunk in file.hunks:
        head, _, body = hunk.text.partition("\n")
        first = next((line for line in body.split("\n") if line[:1] in "+-"), "")
        yield Option(
            f"hunk:{hunk.id}",
            f"  {inert_line(head)}  {inert_line(first)}",
            group=f"{path}  {said}",
            off=not can,
        )
