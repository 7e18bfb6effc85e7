"""The error tree: everything Bullpen raises on purpose.

    BullpenError
    ├── BadRequest                  the caller's mistake; says which
    │   ├── UndecodableBody
    │   ├── AgentNotReady
    │   ├── NoModel
    │   └── BadHost
    ├── NotFound
    │   ├── WorkspaceNotFound
    │   ├── SessionNotFound
    │   ├── PromptNotFound
    │   ├── RunNotFound
    │   ├── GrantNotFound
    │   ├── RuleNotFound
    │   ├── LanguageServerNotFound
    │   └── ChangesNotFound
    ├── Conflict                    right request, wrong moment
    │   ├── ClientNotAttached
    │   ├── ClientRetired
    │   ├── HostingWorkspaces
    │   ├── WorkspaceClosing
    │   ├── SessionBusy
    │   ├── ChannelsDiffer
    │   ├── ContentChanged
    │   ├── UndoConflict            undoing would touch what somebody else did since
    │   ├── NothingToUndo
    │   ├── PreviewOutdated
    │   └── DataDirectoryInUse
    ├── ShuttingDown
    ├── Unauthorized
    ├── Forbidden
    │   └── HookRefused
    ├── TooLarge
    ├── StoreError
    │   ├── StoreFull
    │   ├── StoreBusy
    │   ├── StoreFailing
    │   ├── StoreDamaged
    │   └── StoreTooNew
    ├── ConfigError
    ├── ProviderError               the model's side failed; carries title, details, retry advice
    ├── ToolServerFailed            an outside tool server did not do what it was asked
    │   └── ToolServerNotStarted
    ├── TurnStuck                   the model repeats itself and would go on for ever
    ├── TurnTooLong                 more steps or more time than one turn may take
    ├── ContextFull                 the conversation does not fit, and summarising it does not help
    ├── BudgetSpent
    ├── ToolFailed                  a result for the model, never the end of a turn
    │   └── LanguageServerFailed
    ├── TurnCancelled               a write met the cancel mark of its own turn
    ├── AddressInUse
    ├── UnsafeSocket
    └── ServerUnreachable           raised by the client

Each class has a stable `code` that crosses the wire beside the message; the server maps class to
status in one table, the client maps the code back to the class.
"""

from __future__ import annotations

from typing import Literal


class BullpenError(Exception):
    """The root; `code` is stable and crosses the wire."""

    code = "error"

    @property
    def message(self) -> str:
        return str(self)


class BadRequest(BullpenError):
    """The request cannot be carried out as it stands; the message says why."""

    code = "bad_request"


class UndecodableBody(BadRequest):
    code = "undecodable_body"

    def __init__(self, why: str = "") -> None:
        super().__init__("failed to decode request")
        self.why = why


class AgentNotReady(BadRequest):
    """No model is configured, so nothing can answer a prompt."""

    code = "agent_not_ready"

    def __init__(self) -> None:
        super().__init__("agent coordinator not initialized")


class NoModel(BadRequest):
    """No model is there that could answer as it was asked for; the message says why."""

    code = "no_model"


class BadHost(BadRequest):
    code = "bad_host"

    def __init__(self, host: str, why: str = "invalid host format") -> None:
        super().__init__(f"{why}: {host!r} (use unix:///path/to.sock or tcp://127.0.0.1:PORT)")
        self.host = host


class NotFound(BullpenError):
    code = "not_found"


class WorkspaceNotFound(NotFound):
    """The workspace was never opened here, or its last client has left."""

    code = "workspace_not_found"

    def __init__(self, workspace_id: str) -> None:
        super().__init__("workspace not found")
        self.workspace_id = workspace_id


class SessionNotFound(NotFound):
    code = "session_not_found"

    def __init__(self, session_id: str) -> None:
        super().__init__("session not found")
        self.session_id = session_id


class PromptNotFound(NotFound):
    """No prompt of that number waits in the session's queue."""

    code = "prompt_not_found"

    def __init__(self, seq: int) -> None:
        super().__init__("prompt not found in the queue")
        self.seq = seq


class RunNotFound(NotFound):
    """No prompt with that run id was accepted here, or it was so long ago that nobody remembers."""

    code = "run_not_found"

    def __init__(self, run_id: str) -> None:
        super().__init__("run not found")
        self.run_id = run_id


class JobNotFound(NotFound):
    """No background job has that id, or it was forgotten after its end."""

    code = "job_not_found"

    def __init__(self, job_id: str) -> None:
        super().__init__("job not found")
        self.job_id = job_id


class GrantNotFound(NotFound):
    code = "grant_not_found"

    def __init__(self, grant_id: str) -> None:
        super().__init__("grant not found")
        self.grant_id = grant_id


class RuleNotFound(NotFound):
    """No permission rule of that id can be taken back: it has expired, was removed, or stands in a config file."""

    code = "rule_not_found"

    def __init__(self, rule_id: str) -> None:
        super().__init__("permission rule not found")
        self.rule_id = rule_id


class LanguageServerNotFound(NotFound):
    code = "language_server_not_found"

    def __init__(self, name: str) -> None:
        super().__init__("LSP client not found")
        self.name = name


class ChangesNotFound(NotFound):
    """The turn changed no files, what it changed made room for newer changes, or nothing was undone that could be redone."""

    code = "changes_not_found"


class Conflict(BullpenError):
    code = "conflict"


class ClientNotAttached(Conflict):
    code = "client_not_attached"

    def __init__(self, client_id: str) -> None:
        super().__init__("client not attached")
        self.client_id = client_id


class ClientRetired(Conflict):
    code = "client_retired"

    def __init__(self, client_id: str) -> None:
        super().__init__("client has been retired")
        self.client_id = client_id


class HostingWorkspaces(Conflict):
    code = "hosting_workspaces"

    def __init__(self) -> None:
        super().__init__("server is hosting live workspaces")


class WorkspaceClosing(Conflict):
    code = "workspace_closing"

    def __init__(self) -> None:
        super().__init__("workspace closing")


class SessionBusy(Conflict):
    code = "session_busy"

    def __init__(self, session_id: str) -> None:
        super().__init__("session is currently processing another request")
        self.session_id = session_id


class ContentChanged(Conflict):
    """What was to be trusted is not what is there now."""

    code = "content_changed"

    def __init__(self, what: str = "the project's files") -> None:
        super().__init__(f"{what} have changed since they were shown; look at them again")


class UndoConflict(Conflict):
    """Nothing was undone; the message names the files that stand in the way, and why."""

    code = "undo_conflict"


class NothingToUndo(Conflict):
    code = "nothing_to_undo"

    def __init__(self, what: str = "undo", why: str = "") -> None:
        super().__init__(f"there is nothing to {what}" + (f": {why}" if why else ""))


class PreviewOutdated(Conflict):
    """Files have changed since the preview was made."""

    code = "preview_outdated"

    def __init__(self) -> None:
        super().__init__("the files have changed since the preview; nothing was undone, look at a new one")


class ChannelsDiffer(Conflict):
    code = "channels_differ"

    def __init__(self) -> None:
        super().__init__(
            "requested channels differ from the existing workspace; close its other clients first or ask for the same"
        )


class DataDirectoryInUse(Conflict):
    """Another process owns the database of that data directory."""

    code = "data_directory_in_use"

    def __init__(self, directory: str, pid: int, version: str, started_at: str) -> None:
        super().__init__(
            f"data directory already in use by another bullpen process: {directory}"
            f" (owner pid={pid} version={version} started_at={started_at})"
        )
        self.directory = directory
        self.pid = pid


class ShuttingDown(BullpenError):
    code = "shutting_down"

    def __init__(self) -> None:
        super().__init__("server is shutting down")


class Unauthorized(BullpenError):
    code = "unauthorized"

    def __init__(self) -> None:
        super().__init__("a valid token is required: send 'Authorization: Bearer <token>'")


class Forbidden(BullpenError):
    code = "forbidden"


class HookRefused(Forbidden):
    """A hook of the user's does not want this to happen."""

    code = "hook_refused"

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"a hook refused this {what}: {reason or 'no reason given'}")


class TooLarge(BullpenError):
    code = "too_large"

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"request body is larger than {limit_bytes} bytes")
        self.limit_bytes = limit_bytes


class TooSlow(BullpenError):
    """The request's body came too slowly to be waited for."""

    code = "too_slow"

    def __init__(self) -> None:
        super().__init__("the request body did not arrive in time")


class StoreError(BullpenError):
    """The database could not do what was asked; nothing of it was kept."""

    code = "store_error"


class StoreFull(StoreError):
    code = "store_full"

    def __init__(self) -> None:
        super().__init__("no space left for the database; free some disk space and try again")


class StoreBusy(StoreError):
    code = "store_busy"

    def __init__(self) -> None:
        super().__init__("the database is locked by another program; try again")


class StoreFailing(StoreError):
    """The disk failed under the database. Nothing more is taken until the file was opened anew and checked."""

    code = "store_failing"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"the disk failed under the database {path} ({why}); it is opened anew and checked, try again"
        )
        self.path = path


class StoreDamaged(StoreError):
    code = "store_damaged"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"the database {path} is damaged ({why}); restore a backup or move the file away")
        self.path = path


class StoreTooNew(StoreError):
    code = "store_too_new"

    def __init__(self, path: str, found: int, known: int) -> None:
        super().__init__(
            f"the database {path} was written by a newer Bullpen (schema {found}, this one knows {known}); "
            "upgrade Bullpen or use another data directory"
        )
        self.path = path


class ConfigError(BullpenError):
    code = "config_error"


ProviderErrorKind = Literal["", "auth", "missing", "overflow", "limit", "overloaded"]
"""What there is to do about a failed model call, beside trying again: renew the credential; choose another model or
address; shorten the conversation; wait until a rate or a credit allows it; ask another model meanwhile."""


class ProviderError(BullpenError):
    """A model call failed.

    `title` is short enough for a heading, `details` is one sentence with what the provider said, `status` its
    HTTP status or 0. `retryable` says whether the same request may succeed later, `retry_after_s` when;
    `resets_at` is the wall time at which a used-up limit begins anew, if the provider says so. `kind` tells what
    the engine can do something about.
    """

    code = "provider_error"

    def __init__(
        self,
        details: str,
        *,
        title: str = "Provider Error",
        status: int = 0,
        retryable: bool = False,
        retry_after_s: float | None = None,
        kind: ProviderErrorKind = "",
        resets_at: float | None = None,
    ) -> None:
        super().__init__(details)
        self.kind = kind
        self.resets_at = resets_at
        self.title = title
        self.details = details
        self.status = status
        self.retryable = retryable
        self.retry_after_s = retry_after_s


class ToolServerFailed(BullpenError):
    """An outside tool server did not do what it was asked; the message says why.

    `is_lost` says that the connection is gone, or no longer known to the server; `is_foreign` that the server
    does not know the way it was greeted.
    """

    code = "tool_server_failed"

    def __init__(self, why: str, *, is_lost: bool = False, is_foreign: bool = False) -> None:
        super().__init__(why)
        self.is_lost = is_lost
        self.is_foreign = is_foreign


class ToolServerNotStarted(ToolServerFailed):
    """The server could not be started at all."""

    code = "tool_server_not_started"


class TurnStuck(BullpenError):
    code = "turn_stuck"

    def __init__(self) -> None:
        super().__init__("The model kept repeating the same tool calls, so the turn was stopped.")


class TurnTooLong(BullpenError):
    code = "turn_too_long"

    def __init__(self, limit: str) -> None:
        super().__init__(
            f"The turn was stopped at its limit of {limit}. Say that it should go on, or raise options.turn_limits."
        )


class ContextFull(BullpenError):
    code = "context_full"

    def __init__(self) -> None:
        super().__init__(
            "The conversation does not fit into the model's context, and summarising it did not help. "
            "Choose a model with a larger context, or go on in a new session."
        )


class BudgetSpent(BullpenError):
    """What was allowed to be spent is spent; nothing was asked of the model."""

    code = "budget_spent"

    def __init__(self, what: str, limit: float, spent: float) -> None:
        super().__init__(
            f"The budget of this {what} is spent: ${spent:.4g} of ${limit:.4g}. Raise it to go on."
        )


class ToolFailed(BullpenError):
    """What went wrong inside a tool, worded for the model that called it."""

    code = "tool_failed"


class LanguageServerFailed(ToolFailed):
    """A language server did not do what it was asked. `why` says what it did instead; `is_lost` that it is gone."""

    code = "language_server_failed"

    def __init__(self, why: str, *, server: str = "", is_lost: bool = False) -> None:
        super().__init__(f"the language server {server} {why}" if server else f"the language server {why}")
        self.why = why
        self.is_lost = is_lost


class TurnCancelled(BullpenError):
    """A write of a turn found that the turn has been cancelled; nothing was written."""

    code = "turn_cancelled"


class AddressInUse(BullpenError):
    code = "address_in_use"

    def __init__(self, address: str) -> None:
        super().__init__(f"address already in use: {address} (another server listens there)")
        self.address = address


class UnsafeSocket(BullpenError):
    code = "unsafe_socket"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"refusing to listen on {path}: {why}")
        self.path = path
        self.why = why


class ServerUnreachable(BullpenError):
    code = "server_unreachable"
