"""What turns changed in the files of a workspace, and how it is undone."""

from __future__ import annotations

from typing import Literal

from bullpen.schema.wire import Int64, Wire

Verb = Literal["created", "modified", "deleted"]


class TurnChanges(Wire, frozen=True, kw_only=True):
    """Files were changed by a call of a turn, or what it changed was undone or redone. `paths` may be only the first ones, with
    `more` behind them. `partial` says that more may have changed."""

    session_id: str
    turn: Int64
    action: Literal["changed", "undone", "redone"]
    tool_call_id: str = ""
    created: int
    modified: int
    deleted: int
    paths: tuple[str, ...]
    more: int = 0
    partial: bool = False
    author: str = ""


class TurnSummary(Wire, frozen=True, kw_only=True):
    """A turn that changed files. `partial` says that some of its changes may not be known, `shared` that commands of other sessions
    ran at the same time, so that some of them may be theirs; `unknown` that some were found after a crash. What was `forgotten`
    made room for newer changes and cannot be undone. An `inherited` one ran in the session that this one is a fork of."""

    turn: Int64
    session_id: str
    prompt: str
    created_at: Int64
    created: int
    modified: int
    deleted: int
    paths: tuple[str, ...]
    more: int = 0
    state: Literal["changed", "partly", "undone", "forgotten"]
    partial: bool = False
    shared: bool = False
    unknown: bool = False
    inherited: bool = False


class ChangeHunk(Wire, frozen=True, kw_only=True):
    """One place that an undo would change, as a diff. The id is of this very change: where other lines of the file have changed
    meanwhile it is the same."""

    id: str
    text: str


class FileUndo(Wire, frozen=True, kw_only=True):
    """What an undo would do to one path; a directory's ends with a slash. `change` is what the undo does, so `deleted` for a file that
    the turn made. `merge`: somebody changed other places of it since, and that stays. `conflict`: somebody changed the same
    place. `uncovered`: its earlier content is not kept."""

    path: str
    change: Verb
    status: Literal["ready", "merge", "conflict", "uncovered"]
    reason: str = ""
    binary: bool = False
    additions: int = 0
    removals: int = 0
    hunks: tuple[ChangeHunk, ...] = ()
    cut: bool = False
    """There is more to show than is shown."""


class UndoPreview(Wire, frozen=True, kw_only=True):
    """What an undo or redo would do. `fingerprint` is of exactly this."""

    turn: Int64
    session_id: str
    fingerprint: str
    files: tuple[FileUndo, ...]
    conflicts: int
    uncovered: int
    notes: tuple[str, ...] = ()


class UndoRequest(Wire, frozen=True, kw_only=True):
    """Everything, or only some files, or only some hunks, by the ids that a preview gave them. With a fingerprint nothing is done
    unless it would be exactly what was shown."""

    files: tuple[str, ...] = ()
    hunks: tuple[str, ...] = ()
    fingerprint: str = ""


class Undone(Wire, frozen=True, kw_only=True):
    """What was done: the paths that are back, and in `notes` what is not."""

    turn: Int64
    session_id: str
    restored: tuple[str, ...]
    notes: tuple[str, ...] = ()
