"""Asks: what a person has to answer, and the notices that they were answered."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from bullpen.schema.wire import Wire

PermissionAction = Literal["allow", "allow_session", "allow_exact", "allow_rule", "deny"]
QuestionType = Literal["yes_no", "single_choice", "multi_choice", "free_text"]


class PermissionRequest(Wire, frozen=True, kw_only=True):
    """`path` is a directory: of the file, or the working directory. `params` depends on the tool."""

    id: str
    session_id: str
    tool_call_id: str
    tool_name: str
    description: str
    action: str
    params: Any
    path: str


class PermissionNotification(Wire, frozen=True, kw_only=True):
    """Both false: asked. `denied` also when the ask died with its turn. The last two fields are ours: a call's
    id is only unique within its session."""

    tool_call_id: str
    granted: bool
    denied: bool
    session_id: str = ""
    answered_by: str = ""


class Choice(Wire, frozen=True, kw_only=True):
    id: str
    label: str
    description: str = ""


class Question(Wire, frozen=True, kw_only=True):
    id: str
    type: QuestionType
    label: str = ""
    question: str
    description: str = ""
    choices: tuple[Choice, ...] = ()


class QuestionBatch(Wire, frozen=True, kw_only=True):
    id: str
    session_id: str
    tool_call_id: str
    questions: tuple[Question, ...]
    confirm_title: str = ""
    confirm_description: str = ""


class OpenAsks(Wire, frozen=True, kw_only=True):
    """All that waits for a person in a workspace."""

    permissions: tuple[PermissionRequest, ...]
    questions: tuple[QuestionBatch, ...]


class QuestionBatchNotification(Wire, frozen=True, kw_only=True):
    batch_id: str
    answered_by: str = ""


class QuestionResponse(Wire, frozen=True, kw_only=True):
    request_id: str = ""
    selected_ids: tuple[str, ...] = ()
    fill_in_text: str = ""
    yes: bool | None = None
    notes: dict[str, str] = msgspec.field(default_factory=dict)


class Grant(Wire, frozen=True, kw_only=True):
    """A standing approval. `fingerprint` is set for exact grants: only the very same call matches."""

    id: str
    scope: Literal["session", "exact", "rule"]
    session_id: str
    tool_name: str
    action: str
    path: str
    fingerprint: str = ""
    created_at: int
    granted_by: str = ""
