"""Sessions as a library: all of them, what was thrown away, forks, rewinds."""

from __future__ import annotations

from typing import Literal

from bullpen.schema.changes import Undone, UndoPreview
from bullpen.schema.session import SearchHit, Session
from bullpen.schema.wire import Int64, Wire

SessionState = Literal["running", "waiting", "done"]


class KnownSession(Wire, frozen=True, kw_only=True):
    """A session of any workspace that this server keeps, open or not. It is `waiting` when somebody has to answer an ask of it or of a
    sub-agent's. `model` and `provider` are those of its last answer."""

    workspace_id: str
    workspace_path: str
    state: SessionState
    model: str
    provider: str
    session: Session


class KnownHit(Wire, frozen=True, kw_only=True):
    """A message of any workspace that holds the words looked for."""

    workspace_id: str
    workspace_path: str
    title: str
    hit: SearchHit


class TrashedSession(Wire, frozen=True, kw_only=True):
    """A session in the trash, and until when it can be had back."""

    session: Session
    deleted_at: Int64
    until: Int64


class Fork(Wire, frozen=True, kw_only=True):
    """Up to and including a message, with the results of its calls; all of it without one. Without a title it gets that of the session."""

    message_id: str = ""
    title: str = ""


class RewindRequest(Wire, frozen=True, kw_only=True):
    """Back to before a message of a person's. With `files` what the turns since then changed is undone as well. With a fingerprint nothing is
    done unless it would be exactly what was shown."""

    message_id: str = ""
    files: bool = False
    fingerprint: str = ""


class CutMessage(Wire, frozen=True, kw_only=True):
    """A message that would go, and how it begins."""

    id: str
    role: str
    text: str


class RewindPreview(Wire, frozen=True, kw_only=True):
    """What a rewind would do. `text` is what the person wrote, to be changed and sent again; `turns` those that end with it. `undo` is what
    would become of the files, when they changed any that are known."""

    session_id: str
    message_id: str
    text: str
    messages: tuple[CutMessage, ...]
    turns: tuple[Int64, ...]
    undo: UndoPreview | None = None
    fingerprint: str
    notes: tuple[str, ...] = ()


class Rewound(Wire, frozen=True, kw_only=True):
    """What was done. `trash_id` is the session in the trash that holds the conversation as it was."""

    session: Session
    text: str
    removed: int
    trash_id: str
    undone: Undone | None = None
