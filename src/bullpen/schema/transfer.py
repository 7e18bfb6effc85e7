"""A session as one document that can be kept, sent and taken in elsewhere. The format is named and numbered.

It is read strictly: what is missing, unknown or of another kind is refused with the place where it stands.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from bullpen.schema.message import Message
from bullpen.schema.session import Session, Todo
from bullpen.schema.wire import Int64, Wire

FORMAT: Literal["bullpen-session"] = "bullpen-session"
VERSION: Literal[1] = 1

Name = Annotated[str, Meta(max_length=512)]
Cost = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class ExportedSession(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`summary_message_id` names the message from which on the model reads."""

    title: str
    created_at: Int64
    updated_at: Int64
    cost: Cost = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    summary_message_id: Name = ""
    todos: tuple[Todo, ...] = ()


class ExportedPin(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str
    author: str = ""
    created_at: Int64 = 0


class ExportedFile(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One state of a file that the session changed. The path is relative to the workspace, with slashes; version 0 is what stood there before."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    content: str
    version: Count
    created_at: Int64 = 0


class ExportedPrompt(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What waited to run. It is there to be read: an import queues nothing."""

    text: str
    author: str = ""


class SessionDocument(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`origin` names where the session came from: what has the same origin is imported once. `left_out` counts file versions from outside the
    workspace, which have no place in another."""

    format: Literal["bullpen-session"]
    version: Literal[1]
    exported_at: Int64 = 0
    origin: Name = ""
    session: ExportedSession
    messages: tuple[Message, ...]
    pins: tuple[ExportedPin, ...] = ()
    files: tuple[ExportedFile, ...] = ()
    queue: tuple[ExportedPrompt, ...] = ()
    left_out: Count = 0


class Imported(Wire, frozen=True, kw_only=True):
    """`is_new` is false when a session of the same origin was there; then it is that one."""

    session: Session
    is_new: bool
