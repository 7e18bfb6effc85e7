"""Events: the numbered facts that clients see.

On the wire an event is `{"type": kind, "payload": {"type": action, "payload": {…}}}`. The kind follows
from the payload's class; the action is said by whoever makes the event.

Three classes of keeping decide what a reconnecting client gets:

* ``each``: every one is replayed, exactly once;
* ``latest``: only the last one per object is replayed;
* ``volatile``: never stored.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from bullpen.schema.agent import QueuedPrompt, SkillState
from bullpen.schema.asks import (
    PermissionNotification,
    PermissionRequest,
    PermissionsSkip,
    QuestionBatch,
    QuestionBatchNotification,
)
from bullpen.schema.changes import TurnChanges
from bullpen.schema.choices import SessionChoices
from bullpen.schema.jobs import CommandOutput, Job, SandboxState
from bullpen.schema.message import EMPTY_MESSAGE, Message
from bullpen.schema.session import FileVersion, Pin, Session
from bullpen.schema.wire import Wire

Action = Literal["created", "updated", "deleted"]
Keep = Literal["each", "latest", "volatile"]


class RunSpent(Wire, frozen=True, kw_only=True):
    """What the model calls of one turn cost, its sub-agents included; `estimated` of them were not counted by the vendor."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0
    estimated: int = 0


class RunComplete(Wire, frozen=True, kw_only=True):
    """The one end of a turn. `run_ids` names the prompts that were folded into it; `code` is that of the error."""

    session_id: str
    run_id: str = ""
    message_id: str
    text: str = ""
    error: str = ""
    cancelled: bool = False
    run_ids: tuple[str, ...] = ()
    code: str = ""
    spent: RunSpent | UnsetType = UNSET


class AgentEvent(Wire, frozen=True, kw_only=True):
    type: Literal["agent_finished", "error", "re_authenticate", "aws_sso_auth", "aws_sso_auth_result"]
    message: Message
    error: str = ""
    run_id: str = ""
    session_id: str = ""
    session_title: str = ""
    aws_sso_command: str = ""
    aws_sso_url: str = ""


class ConfigChanged(Wire, frozen=True, kw_only=True):
    """The configuration is another one, or could not become one: then `error` says why the last good one stays.

    `reason` is `files` or `trust` where no client's call to the config was the cause.
    """

    workspace_id: str
    reason: str = ""
    error: str = ""
    warnings: tuple[str, ...] = ()


class SkillsEvent(Wire, frozen=True, kw_only=True):
    states: tuple[SkillState, ...]


class LspEvent(Wire, frozen=True, kw_only=True):
    type: Literal["state_changed", "diagnostics_changed"]
    name: str
    state: int
    error: str = ""
    diagnostic_count: int = 0


class McpEvent(Wire, frozen=True, kw_only=True):
    type: Literal["state_changed", "tools_list_changed", "prompts_list_changed", "resources_list_changed"]
    name: str
    state: str
    error: str = ""
    tool_count: int = 0
    prompt_count: int = 0
    resource_count: int = 0
    held_count: int = 0


class UpdateAvailable(Wire, frozen=True, kw_only=True):
    current_version: str
    latest_version: str
    is_development: bool


class MessageDelta(Wire, frozen=True, kw_only=True):
    """Text that grew: `offset` is the length of the part before it, in code points."""

    session_id: str
    message_id: str
    part: Literal["text", "reasoning"]
    offset: int
    text: str


class Resync(Wire, frozen=True, kw_only=True):
    """Events may be missing before this point: reload by REST, then go on from `cursor`."""

    reason: str
    cursor: str = ""


class QueueChanged(Wire, frozen=True, kw_only=True):
    """The prompts that wait in a session, in the order they will run."""

    session_id: str
    prompts: tuple[QueuedPrompt, ...]


class RunWaiting(Wire, frozen=True, kw_only=True):
    """The model's host refused, and the turn waits before it asks again; `deleted` when it goes on or is over.
    `until` is in seconds since the epoch."""

    session_id: str
    run_id: str = ""
    reason: str
    until: float
    attempt: int
    model: str = ""
    provider: str = ""


class Compacted(Wire, frozen=True, kw_only=True):
    """From here on the model sees a summary instead of what was said before it; it can be undone."""

    session_id: str
    message_id: str
    reason: Literal["asked", "full", "overflow"]
    tokens_before: int
    tokens_after: int


class HookSaid(Wire, frozen=True, kw_only=True):
    """What one hook said; `error` is how it failed."""

    name: str
    decision: str = ""
    reason: str = ""
    error: str = ""


class HookDecided(Wire, frozen=True, kw_only=True):
    """Hooks had a say in a prompt, a turn or an ask, or failed to. What they make of a tool's call stands in its result."""

    session_id: str
    event: str
    decision: Literal["allow", "deny", "none"]
    reason: str = ""
    rewrote: bool = False
    added: bool = False
    hooks: tuple[HookSaid, ...] = ()


Payload = (
    Message
    | Session
    | FileVersion
    | PermissionRequest
    | PermissionNotification
    | QuestionBatch
    | QuestionBatchNotification
    | RunComplete
    | AgentEvent
    | ConfigChanged
    | SkillsEvent
    | LspEvent
    | McpEvent
    | UpdateAvailable
    | MessageDelta
    | Resync
    | QueueChanged
    | SessionChoices
    | RunWaiting
    | Compacted
    | Pin
    | HookDecided
    | Job
    | CommandOutput
    | TurnChanges
    | SandboxState
    | PermissionsSkip
)

KINDS: dict[type[Wire], str] = {
    Message: "message",
    Session: "session",
    FileVersion: "file",
    PermissionRequest: "permission_request",
    PermissionNotification: "permission_notification",
    QuestionBatch: "question_batch_request",
    QuestionBatchNotification: "question_batch_notification",
    RunComplete: "run_complete",
    AgentEvent: "agent_event",
    ConfigChanged: "config_changed",
    SkillsEvent: "skills_event",
    LspEvent: "lsp_event",
    McpEvent: "mcp_event",
    UpdateAvailable: "update_available",
    MessageDelta: "message_delta",
    Resync: "resync",
    QueueChanged: "queue_changed",
    SessionChoices: "session_choices",
    RunWaiting: "run_waiting",
    Compacted: "session_compacted",
    Pin: "session_pin",
    HookDecided: "hook_decided",
    Job: "job",
    CommandOutput: "command_output",
    TurnChanges: "turn_changes",
    SandboxState: "sandbox",
    PermissionsSkip: "permissions_skip",
}
"""The wire's name of each payload class."""

CLASSES: dict[str, type[Wire]] = {name: cls for cls, name in KINDS.items()}


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event as a client receives it. `id` is empty only on events that were never sent."""

    id: str
    kind: str
    action: Action
    payload: Payload


def agent_finished(session_id: str, title: str) -> AgentEvent:
    return AgentEvent(
        type="agent_finished", message=EMPTY_MESSAGE, session_id=session_id, session_title=title
    )


def agent_error(session_id: str, run_id: str, error: str) -> AgentEvent:
    return AgentEvent(type="error", message=EMPTY_MESSAGE, session_id=session_id, run_id=run_id, error=error)


def login_begun(session_id: str, run_id: str, command: str, url: str) -> AgentEvent:
    return AgentEvent(
        type="aws_sso_auth",
        message=EMPTY_MESSAGE,
        session_id=session_id,
        run_id=run_id,
        aws_sso_command=command,
        aws_sso_url=url,
    )


def login_ended(session_id: str, run_id: str, command: str, error: str) -> AgentEvent:
    return AgentEvent(
        type="aws_sso_auth_result",
        message=EMPTY_MESSAGE,
        session_id=session_id,
        run_id=run_id,
        aws_sso_command=command,
        error=error,
    )


def frame(event_id: str, kind: str, action: str, body: bytes) -> bytes:
    """The bytes of one event on a stream; `body` is the payload's JSON, which holds no line break."""
    return b'id: %b\ndata: {"type":"%b","payload":{"type":"%b","payload":%b}}\n\n' % (
        event_id.encode(),
        kind.encode(),
        action.encode(),
        body,
    )
