"""What an undo has to do: from what turns changed and what stands there now, to what shall stand there.

A path's changes are taken back one by one, the newest first. Where somebody has changed the file since, only the lines that are to go are taken
out of it; where that cannot be done without touching theirs, it is a conflict, and the file stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from bullpen.files.blobs import BlobMissing, Blobs
from bullpen.files.merging import merged
from bullpen.store.changes import Change, ChangeSet, State

Status = Literal["ready", "merge", "conflict", "uncovered"]

CHANGED_SINCE = "it was changed since, in the same place"
GONE_SINCE = "it was removed since"
THERE_SINCE = "something else stands there now"
NOT_KEPT = "its content is not kept (too large, no room, or changed before it was read)"
LOST = "its earlier content was dropped to make room"


class Step(NamedTuple):
    """One path on its way back."""

    path: str
    now: State
    target: State
    status: Status
    reason: str = ""

    @property
    def does_something(self) -> bool:
        return self.status in ("ready", "merge")


class _Differs(Exception):
    """There is no way back that leaves what others did alone."""


class Contents:
    """Contents to merge, and where what comes of it is kept."""

    def __init__(self, blobs: Blobs, room: int) -> None:
        self._blobs = blobs
        self._room = room

    def merge(self, base: str, mine: str, theirs: str) -> str:
        text = merged(self._blobs.get(base), self._blobs.get(mine), self._blobs.get(theirs))
        name = None if text is None else self._blobs.put(text, room=self._room)
        if name is None:
            raise _Differs(CHANGED_SINCE)
        return name


def chains(sets: Iterable[ChangeSet]) -> dict[str, list[Change]]:
    """What is left of these, oldest first, for each path: what was undone and not redone is not."""
    found: dict[str, list[Change]] = {}
    for change_set in sets:
        for change in change_set.changes:
            found.setdefault(change.path, []).append(change)
    return {path: net for path, changes in found.items() if (net := _net(changes))}


def _net(changes: Iterable[Change]) -> list[Change]:
    """What follows from each other becomes one; what came to nothing goes."""
    net: list[Change] = []
    for path, begins, after in changes:
        before = begins
        while net and net[-1].after == before:
            before = net.pop().before
        if before != after:
            net.append(Change(path, before, after))
    return net


def reverted(path: str, chain: Sequence[Change], now: State, contents: Contents) -> Step | None:
    """The step that takes a path's changes back from what stands there now; None when there is nothing to do."""
    if not all(state.is_kept for change in chain for state in (change.before, change.after)):
        return Step(path, now, now, "uncovered", NOT_KEPT)
    target = now
    merges = False
    try:
        for change in reversed(chain):
            merges = merges or target not in (change.after, change.before)
            target = _back(change, target, contents)
    except _Differs as exc:
        return Step(path, now, now, "conflict", str(exc))
    except BlobMissing:
        return Step(path, now, now, "uncovered", LOST)
    if target == now:
        return None
    if not now.is_kept:
        return Step(path, now, now, "conflict", CHANGED_SINCE)
    return Step(path, now, target, "merge" if merges else "ready")


def _back(change: Change, now: State, contents: Contents) -> State:
    _, before, after = change
    if now in (before, after):
        return before
    kinds = {before.kind, after.kind, now.kind}
    if kinds == {"file"} and now.is_kept:
        if len({before.mode, after.mode, now.mode}) == 3:
            raise _Differs("its permissions were changed since")
        mode = before.mode if now.mode == after.mode else now.mode
        if now.content in (after.content, before.content):
            content = before.content
        elif before.content == after.content:
            content = now.content
        else:
            content = contents.merge(after.content, before.content, now.content)
        return State("file", mode, content)
    if now.kind == after.kind == "dir":
        # A directory is what is in it; somebody's other permissions for it are no reason to keep it.
        return now if before.kind == "dir" else before
    if not now.kind:
        raise _Differs(GONE_SINCE)
    raise _Differs(CHANGED_SINCE if after.kind else THERE_SINCE)


def fingerprint(steps: Iterable[Step]) -> str:
    """The same for the same steps, and for no others."""
    told = "\0".join(f"{s.path}\1{s.status}\1{tuple(s.now)}\1{tuple(s.target)}" for s in steps)
    return hashlib.sha256(told.encode()).hexdigest()[:32]
