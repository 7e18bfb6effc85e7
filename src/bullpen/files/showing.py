"""What an undo would do, as people see it and choose from it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

from bullpen.errors import BadRequest, PreviewOutdated, UndoConflict
from bullpen.files.blobs import BlobMissing, Blobs
from bullpen.files.merging import Hunk, hunks, is_text, with_hunks
from bullpen.files.reverting import Step, fingerprint
from bullpen.schema.changes import ChangeHunk, FileUndo, UndoRequest
from bullpen.store.changes import Change, State

SHOWN_FILES = 200
SHOWN_CHARS = 64 * 1024
SHOWN_CHARS_IN_ALL = 1024 * 1024
"""A preview is for reading: of more files, and of longer diffs, only the names are told."""

NAMED = 10
ID_LENGTH = 8


def shown_path(step: Step) -> str:
    return f"{step.path}/" if _is_directory(step) else step.path


def preview_of(steps: Sequence[Step], blobs: Blobs) -> tuple[FileUndo, ...]:
    """It blocks."""
    room = SHOWN_CHARS_IN_ALL
    files = []
    for number, step in enumerate(steps):
        file = _file(step, blobs, min(room, SHOWN_CHARS) if number < SHOWN_FILES else 0)
        room -= sum(len(hunk.text) for hunk in file.hunks)
        files.append(file)
    return tuple(files)


def chosen(steps: Sequence[Step], request: UndoRequest, blobs: Blobs, room: int) -> list[Change]:
    """What is to be done of it. It blocks. Raises `PreviewOutdated`, `BadRequest` or `UndoConflict`."""
    if request.fingerprint and request.fingerprint != fingerprint(steps):
        raise PreviewOutdated
    parts = _parts(steps, request.hunks, blobs)
    names = {shown_path(step): step for step in steps}
    if unknown := sorted(set(request.files) - names.keys()):
        raise BadRequest(f"not among the files of this undo: {_listed(unknown)}")
    is_part = bool(request.files or request.hunks)
    picked = [s for name, s in names.items() if not is_part or name in request.files or s.path in parts]
    refused = {"conflict", "uncovered"} if is_part else {"conflict"}
    if in_the_way := [step for step in picked if step.status in refused]:
        told = _listed([f"{step.path} ({step.reason})" for step in in_the_way])
        raise UndoConflict(
            f"nothing was changed, because of {told}; choose other files, or mend these by hand"
        )
    if is_part:
        picked += [step for step in steps if step not in picked and _is_around(step, picked)]
    whole = set(request.files)
    return [
        _change(step, None if shown_path(step) in whole else parts.get(step.path), blobs, room)
        for step in picked
        if step.does_something
    ]


def _file(step: Step, blobs: Blobs, room: int) -> FileUndo:
    path, verb = shown_path(step), Change(step.path, step.now, step.target).verb
    if not step.does_something:
        return FileUndo(path=path, change="modified", status=step.status, reason=step.reason)
    found = _hunks(step, blobs)
    if found is None:
        binary = not (is_text(_content(step.now, blobs)) and is_text(_content(step.target, blobs)))
        return FileUndo(path=path, change=verb, status=step.status, binary=binary, cut=not binary)
    fits = sum(len(hunk.text) for hunk in found.values()) <= room
    return FileUndo(
        path=path,
        change=verb,
        status=step.status,
        reason=_reason(step),
        additions=sum(hunk.additions for hunk in found.values()),
        removals=sum(hunk.removals for hunk in found.values()),
        hunks=tuple(ChangeHunk(id=key, text=hunk.text) for key, hunk in found.items()) if fits else (),
        cut=not fits,
    )


def _reason(step: Step) -> str:
    if step.status == "merge":
        return "it was changed since; that stays"
    if step.now.kind == step.target.kind == "file" and step.now.mode != step.target.mode:
        return f"permissions {step.now.mode:o} → {step.target.mode:o}"
    return ""


def _hunks(step: Step, blobs: Blobs) -> dict[str, Hunk] | None:
    """By id, in order: a hash of path and lines, so that an id cannot come to mean something else."""
    found = hunks(_content(step.now, blobs), _content(step.target, blobs))
    if found is None:
        return None
    seen: Counter[str] = Counter()
    by_id = {}
    for hunk in found:
        lines = hunk.text.partition("\n")[2]
        seen[lines] += 1
        told = f"{step.path}\0{seen[lines]}\0{lines}"
        by_id[hashlib.sha256(told.encode()).hexdigest()[:ID_LENGTH]] = hunk
    return by_id


def _content(state: State, blobs: Blobs) -> bytes:
    if state.kind == "link":
        return f"link to {state.content}\n".encode()
    if state.kind != "file":
        return b""
    try:
        return blobs.get(state.content)
    except BlobMissing:
        return b""


def _parts(steps: Sequence[Step], wanted: Sequence[str], blobs: Blobs) -> dict[str, set[str]]:
    """The chosen hunks by path."""
    parts: dict[str, set[str]] = {}
    left = set(wanted)
    for step in steps:
        if left and step.does_something and (mine := left & (_hunks(step, blobs) or {}).keys()):
            parts[step.path] = mine
            left -= mine
    if left:
        raise BadRequest(f"no such hunk by now: {_listed(sorted(left))}; look at a new preview")
    return parts


def _is_directory(step: Step) -> bool:
    return Change(step.path, step.now, step.target).is_directory


def _is_around(step: Step, picked: Sequence[Step]) -> bool:
    """A directory goes and comes with what is in it."""
    return _is_directory(step) and any(
        PurePosixPath(step.path) in PurePosixPath(other.path).parents for other in picked
    )


def _change(step: Step, wanted: set[str] | None, blobs: Blobs, room: int) -> Change:
    found = None if wanted is None else _hunks(step, blobs)
    if wanted is None or found is None or wanted == found.keys():
        return Change(step.path, step.now, step.target)
    if not step.now.kind == step.target.kind == "file":
        raise BadRequest(f"{step.path} can only be undone as a whole")
    numbers = [number for number, key in enumerate(found, 1) if key in wanted]
    name = blobs.put(with_hunks(_content(step.now, blobs), list(found.values()), numbers), room=room)
    if name is None:
        raise UndoConflict("there is no room to keep what the undo would change; nothing was changed")
    return Change(step.path, step.now, State("file", step.now.mode, name))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
