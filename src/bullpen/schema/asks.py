"""Asks: what a person has to answer, and the notices that they were answered."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from bullpen.schema.wire import Wire

PermissionAction = Literal["allow", "allow_session", "allow_exact", "allow_rule", "deny"]
QuestionType = Literal["yes_no", "single_choice", "multi_choice", "free_text"]


class PermissionRequest(Wire, frozen=True, kw_only=True):
    """`path` is a directory: of the file, or the working directory. `params` depends on the tool.

    The last five fields are ours. `why` says in a sentence why somebody is asked. `warnings` are about what is hidden or odd in
    what is asked; if there are any, `shown` is the call with all of it made visible. `rule` says what `allow_rule` would
    let through from then on, "" if it cannot be offered. `protected` asks for a target that only an exact approval covers.
    """

    id: str
    session_id: str
    tool_call_id: str
    tool_name: str
    description: str
    action: str
    params: Any
    path: str
    why: str = ""
    warnings: tuple[str, ...] = ()
    shown: str = ""
    rule: str = ""
    protected: bool = False


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


Ask = PermissionRequest | QuestionBatch
"""Whatever waits for a person."""


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
    expires_at: int = 0
    covers: str = ""
    """What it lets through, in words."""


RuleEffect = Literal["allow", "ask", "deny"]
RuleScope = Literal["session", "workspace", "person"]


class Rule(Wire, frozen=True, kw_only=True):
    """What is let through, asked about or refused without asking. What is empty matches anything.

    `tool` is `name` or `name:action`; `command` a pattern of words, `path` a glob, `host` a name or `*.name`.
    `origin` says where it comes from: an answer to an ask, a person who wrote it, or the config. A `person` rule holds in every
    workspace. 0 is no expiry.
    """

    id: str
    effect: RuleEffect
    tool: str = ""
    command: str = ""
    path: str = ""
    host: str = ""
    scope: RuleScope = "workspace"
    session_id: str = ""
    origin: Literal["answer", "person", "config"] = "person"
    created_by: str = ""
    created_at: int = 0
    expires_at: int = 0


class PermissionsSkip(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """Somebody has switched asking off for the whole workspace, or on again."""

    skip: bool
    changed_by: str = ""


class Explanation(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """What would become of a call, and why."""

    outcome: Literal["allowed", "asked", "refused"]
    why: str
    rules: tuple[Rule, ...] = ()
