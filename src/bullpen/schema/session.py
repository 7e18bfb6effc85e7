"""Sessions and their todo lists."""

from __future__ import annotations

from typing import Literal

from bullpen.schema.wire import Int64, Wire

TodoStatus = Literal["pending", "in_progress", "completed"]

PLACEHOLDER_TITLES = frozenset({"", "New Session", "Untitled Session", "non-interactive"})
"""Titles no person chose; the first prompt may replace them."""


class Todo(Wire, frozen=True, kw_only=True):
    content: str
    status: TodoStatus
    active_form: str


class Session(Wire, frozen=True, kw_only=True):
    """`deleted_by` is said once, by the event that tells of its end."""

    id: str
    parent_session_id: str
    title: str
    message_count: Int64
    prompt_tokens: Int64
    completion_tokens: Int64
    summary_message_id: str
    cost: float
    todos: tuple[Todo, ...] = ()
    created_at: Int64
    updated_at: Int64
    is_busy: bool
    attached_clients: Int64
    deleted_by: str = ""


class Pin(Wire, frozen=True, kw_only=True):
    """A note that every summary of its session carries word for word."""

    id: str
    session_id: str
    text: str
    author: str = ""
    created_at: Int64


class FileVersion(Wire, frozen=True, kw_only=True):
    """One state of a file that a session changed; version 0 is what stood there before."""

    id: str
    session_id: str
    path: str
    content: str
    version: int
    created_at: int
    updated_at: int


class HistoryItem(
    Wire,
    frozen=True,
    kw_only=True,
    rename={
        "id": "ID",
        "session_id": "SessionID",
        "path": "Path",
        "content": "Content",
        "version": "Version",
        "created_at": "CreatedAt",
        "updated_at": "UpdatedAt",
    },
):
    """A `FileVersion` in the capitalised shape that `GET …/history` answers."""

    id: str
    session_id: str
    path: str
    content: str
    version: int
    created_at: int
    updated_at: int


class SearchHit(Wire, frozen=True, kw_only=True):
    """A message that holds the words looked for; the snippet marks them with brackets."""

    session_id: str
    message_id: str
    role: str
    snippet: str
    created_at: int
