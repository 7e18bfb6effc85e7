"""Request bodies and the answers that are not nouns. Every request field has a zero default: the wire
treats a missing key and null alike, and what is really needed is checked by the handler."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from bullpen.schema.agent import SelectedModel
from bullpen.schema.asks import QuestionResponse, RuleEffect, RuleScope
from bullpen.schema.session import Todo
from bullpen.schema.wire import Int64, Wire

# System and workspaces


class Control(Wire, frozen=True, kw_only=True):
    command: str = ""


class NewWorkspace(Wire, frozen=True, kw_only=True):
    """`outlive` and `client_name` are ours: keep working with nobody attached; how others see us."""

    path: str = ""
    client_id: str = ""
    data_dir: str = ""
    debug: bool = False
    yolo: bool = False
    channels: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    version: str = ""
    outlive: bool = False
    client_name: str = ""


class CurrentSession(Wire, frozen=True, kw_only=True):
    session_id: str = ""


class SkillToRead(Wire, frozen=True, kw_only=True):
    skill_id: str = ""


class SkillOrigin(Wire, frozen=True, kw_only=True):
    name: str
    description: str
    source: str
    builtin: bool


class SkillContent(Wire, frozen=True, kw_only=True):
    content: bytes
    result: SkillOrigin


class CommandUse(Wire, frozen=True, kw_only=True):
    """`text` is what was typed behind the command's name; `arguments` are values by name."""

    command_id: str = ""
    text: str = ""
    arguments: dict[str, str] = msgspec.field(default_factory=dict)


class NeedsInit(Wire, frozen=True, kw_only=True):
    needs_init: bool


class PromptText(Wire, frozen=True, kw_only=True):
    prompt: str


# Sessions


class NewSession(Wire, frozen=True, kw_only=True):
    title: str = ""


class SessionChange(Wire, frozen=True, kw_only=True):
    """What a client may change of a session; the rest of its cached copy is ignored."""

    title: str | None = None
    todos: tuple[Todo, ...] | None = None


class FileRead(Wire, frozen=True, kw_only=True):
    session_id: str = ""
    path: str = ""


class FileHit(Wire, frozen=True, kw_only=True):
    """A file or folder of the workspace, relative to it; a folder ends with a slash."""

    path: str


class FileContent(Wire, frozen=True, kw_only=True):
    """A file as it is attached to a prompt. `file_path` has the lines behind it when only those were asked for; `truncated` says that
    there is more than is handed out."""

    file_path: str
    file_name: str
    mime_type: str
    content: bytes
    truncated: bool = False


# Agent


class Attachment(Wire, frozen=True, kw_only=True):
    file_path: str = ""
    file_name: str = ""
    mime_type: str = ""
    content: bytes = b""


class NewPrompt(Wire, frozen=True, kw_only=True):
    """`permissions` says how asks of this run are answered; `interactive: false` takes the question tool. `when` is for a session
    that is busy: `now` breaks the step off, `step` joins at the next one, `after` waits for the end of the turn."""

    session_id: str = ""
    prompt: str = ""
    run_id: str = ""
    attachments: tuple[Attachment, ...] = ()
    permissions: Literal["ask", "allow", "deny", ""] = "ask"
    interactive: bool = True
    when: Literal["", "now", "step", "after"] = ""


class PromptAccepted(Wire, frozen=True, kw_only=True):
    """`prompt` is there when a hook changed the text: what it reads now."""

    run_id: str
    prompt: str = ""


class AgentInit(Wire, frozen=True, kw_only=True):
    interactive: bool = False


class Dropped(Wire, frozen=True, kw_only=True):
    """The queued prompts a cancel or a clear removed, in order."""

    dropped: tuple[str, ...]


class NewPin(Wire, frozen=True, kw_only=True):
    text: str = ""


class Woken(Wire, frozen=True, kw_only=True):
    """`woken` is false when the session was not waiting."""

    woken: bool


class QueueEdit(Wire, frozen=True, kw_only=True):
    """A new text for a waiting prompt, a new place in the queue (0 = next), or both."""

    prompt: str | None = None
    index: Int64 | None = None


class ShellRun(Wire, frozen=True, kw_only=True):
    command: str = ""
    term_width: Int64 = 0


class ShellDone(Wire, frozen=True, kw_only=True):
    output: str
    exit_code: int


# Asks


class GrantedPermission(Wire, frozen=True, kw_only=True):
    """The request echoed; only `id` decides, the rest may be anything."""

    id: str = ""
    tool_call_id: str = ""
    params: Any = None


class PermissionAnswer(Wire, frozen=True, kw_only=True):
    """`reason` with `deny` is ours: it goes to the model and the turn goes on. `rule` with `allow_rule` too: the pattern,
    glob or host to allow instead of the one that the request offers; `scope` says how far it holds."""

    permission: GrantedPermission = GrantedPermission()
    action: str = ""
    reason: str = ""
    rule: str = ""
    scope: RuleScope = "workspace"


class NewRule(Wire, frozen=True, kw_only=True):
    """A rule as a person writes it. `days` until it ends; 0 is never, -1 the default of its scope."""

    effect: RuleEffect | Literal[""] = ""
    tool: str = ""
    command: str = ""
    path: str = ""
    host: str = ""
    scope: RuleScope = "workspace"
    session_id: str = ""
    days: Int64 = -1


class ExplainCall(Wire, frozen=True, kw_only=True):
    """A call that nobody makes: what would become of it?"""

    tool: str = "bash"
    action: str = ""
    command: str = ""
    path: str = ""
    host: str = ""
    session_id: str = ""


class Resolved(Wire, frozen=True, kw_only=True):
    resolved: bool


class Skip(Wire, frozen=True, kw_only=True, omit_defaults=False):
    skip: bool = False


class QuestionAnswer(Wire, frozen=True, kw_only=True):
    batch_request_id: str = ""
    responses: tuple[QuestionResponse, ...] = ()


class QuestionCancel(Wire, frozen=True, kw_only=True):
    """Without an id the oldest open batch of the workspace is meant, as on the reference."""

    batch_request_id: str = ""


# Config


class ConfigSet(Wire, frozen=True, kw_only=True):
    scope: Int64 = 0
    key: str = ""
    value: Any = None


class ConfigRemove(Wire, frozen=True, kw_only=True):
    scope: Int64 = 0
    key: str = ""


class ConfigModel(Wire, frozen=True, kw_only=True):
    scope: Int64 = 0
    model_type: str = ""
    model: SelectedModel = SelectedModel()


class ConfigCompact(Wire, frozen=True, kw_only=True):
    scope: Int64 = 0
    enabled: bool = False


class ProviderKey(Wire, frozen=True, kw_only=True):
    scope: Int64 = 0
    provider_id: str = ""
    kind: str = ""
    api_key: Any = None


class KeyToCheck(Wire, frozen=True, kw_only=True):
    """A key that is not kept anywhere yet."""

    provider_id: str = ""
    api_key: str = ""

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"KeyToCheck(provider_id={self.provider_id!r})"


class KeyChecked(Wire, frozen=True, kw_only=True):
    """What a provider's host says to a key; `unknown` when it cannot be asked, or does not answer. `message` says why."""

    verdict: Literal["good", "refused", "unknown"]
    message: str


class LoginCode(Wire, frozen=True, kw_only=True):
    """What a person has to do: enter `user_code` at `verification_uri`, within so many seconds."""

    user_code: str
    verification_uri: str
    expires_in: float


class LoginState(Wire, frozen=True, kw_only=True):
    """How far a login is that a person ends elsewhere."""

    state: Literal["waiting", "done", "failed", "cancelled"]
    message: str


class RefreshOauth(Wire, frozen=True, kw_only=True):
    scope: Int64 = 0
    provider_id: str = ""


class ImportedToken(Wire, frozen=True, kw_only=True, omit_defaults=False):
    token: Any = None
    success: bool = False


# Trust


class TrustEffect(Wire, frozen=True, kw_only=True):
    """One thing that a project's files would do. `line` is 0 where a file has no lines to speak of. `item` names what it is a part of
    and can be trusted by itself; `state` is `trusted`, `new`, or `changed` since it was trusted."""

    kind: str
    """`runs`, `connects`, `sets`, `allows`, `reads`, `instructs` or `broken`."""
    setting: str
    detail: str
    file: str
    line: int = 0
    item: str = ""
    state: str = ""


class Trust(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """What a project asks for beyond the harmless, and whether it is in force.

    `by_server` says that this server trusts every project; `fingerprint` is the hash of exactly these effects.
    """

    trusted: bool
    by_server: bool = False
    fingerprint: str = ""
    settings: tuple[str, ...] = ()
    effects: tuple[TrustEffect, ...] = ()


class TrustGiven(Wire, frozen=True, kw_only=True):
    """The fingerprint of what the person has seen; nothing else is trusted by it. With `items` only those of it are."""

    fingerprint: str = ""
    items: tuple[str, ...] = ()


class FavoriteModel(Wire, frozen=True, kw_only=True):
    """`favorite` false takes the model from the favourites."""

    provider: str = ""
    model: str = ""
    favorite: bool = True


class RememberedModels(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """The models that were picked lately, by role, and those that somebody likes; newest first."""

    recent: dict[str, tuple[SelectedModel, ...]]
    favorites: tuple[SelectedModel, ...]


# LSP and MCP


class LspStart(Wire, frozen=True, kw_only=True):
    path: str = ""


class McpName(Wire, frozen=True, kw_only=True):
    name: str = ""


class McpAccept(Wire, frozen=True, kw_only=True):
    """The `fingerprint` is that of what was seen."""

    name: str = ""
    fingerprint: str = ""


class McpGetPrompt(Wire, frozen=True, kw_only=True):
    client_id: str = ""
    prompt_id: str = ""
    args: dict[str, str] = msgspec.field(default_factory=dict)


class McpReadResource(Wire, frozen=True, kw_only=True):
    name: str = ""
    uri: str = ""


class ErrorBody(Wire, frozen=True, kw_only=True):
    message: str
    code: str = ""
