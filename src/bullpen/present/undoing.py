"""Changes of files by turns, and what undoing them would do, in lines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from bullpen.errors import NothingToUndo
from bullpen.present.inert import cut, inert, inert_line

if TYPE_CHECKING:
    from bullpen.client.workspace import Room
    from bullpen.schema.changes import FileUndo, TurnSummary, Undone, UndoPreview
    from bullpen.schema.session import Session

NAMED = 5
"""So many files of a turn are named in its line."""

PROMPT_WIDTH = 50
_WORDS = {"created": "create", "modified": "change", "deleted": "delete"}


async def latest(room: Room, session: Session) -> int:
    """The turn that `undo` means when none is named. Raises `NothingToUndo`."""
    for turn in await room.changes(session.id):
        if turn.state in ("changed", "partly"):
            return turn.turn
    raise NothingToUndo


def relative(paths: Sequence[str], root: str) -> list[str]:
    """Paths as the server tells them: relative to the workspace where they are inside."""
    found = []
    for path in paths:
        full = os.path.normpath(os.path.join(root, os.path.expanduser(path)))
        inside = PurePosixPath(full).is_relative_to(root)
        found.append((os.path.relpath(full, root) if inside else full) + "/" * path.endswith("/"))
    return found


def turn_lines(turns: Sequence[TurnSummary]) -> list[str]:
    """One line for each turn."""
    return [_turn_line(turn) for turn in turns] or ["no turn of this session changed files"]


def _turn_line(turn: TurnSummary) -> str:
    counts = [
        f"{count} {word}"
        for count, word in (
            (turn.created, "created"),
            (turn.modified, "changed"),
            (turn.deleted, "deleted"),
        )
        if count
    ]
    more = turn.created + turn.modified + turn.deleted - NAMED
    names = ", ".join(map(inert_line, turn.paths[:NAMED])) + (f" and {more} more" if more > 0 else "")
    marks = [
        "" if turn.state == "changed" else {"partly": "undone in part"}.get(turn.state, turn.state),
        "some changes may not be known" if turn.partial else "",
        "beside commands of other sessions" if turn.shared else "",
        "found after a crash" if turn.unknown else "",
        "before the fork" if turn.inherited else "",
    ]
    told = "; ".join(filter(None, (", ".join(counts), names, *marks)))
    return f"{turn.turn:>5}  “{cut(inert_line(turn.prompt), PROMPT_WIDTH)}”  {told}"


def preview_lines(preview: UndoPreview, *, verb: str, files: Sequence[str] = ()) -> Iterator[str]:
    """What would be done, with the hunks and their ids."""
    shown = chosen(preview, files)
    if not any(file.status in ("ready", "merge") for file in shown):
        yield f"there is nothing to {verb} in turn {preview.turn}"
    else:
        yield f"to {verb} turn {preview.turn} would"
    for file in shown:
        yield from _file_lines(file)
    if has_conflicts(preview, files):
        yield "nothing is done while there are conflicts: choose other files with --file, or mend these by hand"
    yield from (f"note: {inert_line(note)}" for note in preview.notes)


def chosen(preview: UndoPreview, files: Sequence[str]) -> list[FileUndo]:
    return [file for file in preview.files if not files or file.path in files]


def has_conflicts(preview: UndoPreview, files: Sequence[str]) -> bool:
    return any(file.status == "conflict" for file in chosen(preview, files))


def file_line(file: FileUndo) -> str:
    """What would become of a file, or why nothing does."""
    path = inert_line(file.path)
    if file.status in ("conflict", "uncovered"):
        word = "CONFLICT" if file.status == "conflict" else "leave"
        return f"{word}  {path}: {inert_line(file.reason)}"
    lines = f"+{file.additions} −{file.removals}" if file.additions or file.removals else ""
    size = "binary" if file.binary else "too long to show" if file.cut else lines
    said = "; ".join(filter(None, (size, inert_line(file.reason))))
    return f"{_WORDS[file.change]}  {path}" + (f"  ({said})" if said else "")


def _file_lines(file: FileUndo) -> Iterator[str]:
    yield f"  {file_line(file)}"
    if file.status in ("conflict", "uncovered"):
        return
    for hunk in file.hunks:
        head, _, lines = hunk.text.partition("\n")
        yield f"    hunk {hunk.id}  {inert_line(head)}"
        yield from (f"      {line}" for line in inert(lines).rstrip("\n").split("\n"))


def done_lines(done: Undone, *, verb: str, back: str) -> Iterator[str]:
    """What was done. `back` says how to take it back."""
    count = len(done.restored)
    yield f"{verb} turn {done.turn}: {count} {'path' if count == 1 else 'paths'} ({back})"
    yield from (f"  {inert_line(path)}" for path in done.restored)
    yield from (f"note: {inert_line(note)}" for note in done.notes)
