"""The unmodified reference client, played from its description: its calls, its decoding, its reading of streams.

It decodes as strictly as the original: a wrong type, a missing list of parts or a part of an unknown type is an
error here, because there it loses the message or ends the program. Fields it does not know are passed over.
"""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx
import msgspec
from tests.journeys.server import Bullpen
from tests.journeys.stream import Stream

T = TypeVar("T")

Queue: Any = list[str] | None
"""The texts that wait; null when there are none."""

HOST = "api.crush.localhost"
VERSION = "v0.83.0"
BUILD_ID = "dm3k2p0c"

RESUBSCRIBE_S = 0.25
"""The client's own pause before it opens its stream again."""


class Text(msgspec.Struct):
    text: str


class Reasoning(msgspec.Struct):
    thinking: str
    signature: str
    started_at: int = 0
    finished_at: int = 0


class ToolCall(msgspec.Struct):
    id: str
    name: str
    input: str
    finished: bool = False


class ToolResult(msgspec.Struct):
    tool_call_id: str
    name: str
    content: str
    metadata: str
    is_error: bool
    data: str = ""
    mime_type: str = ""


class Finish(msgspec.Struct):
    reason: Literal[
        "end_turn", "tool_use", "max_tokens", "canceled", "error", "content_filter", "unknown", "stop"
    ]
    time: int
    message: str = ""
    details: str = ""


class Binary(msgspec.Struct):
    Path: str
    MIMEType: str
    Data: str


class ImageUrl(msgspec.Struct):
    url: str
    detail: str = ""


class ShellCommand(msgspec.Struct):
    command: str
    output: str
    exit_code: int


PARTS: dict[str, type[msgspec.Struct]] = {
    "text": Text,
    "reasoning": Reasoning,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "finish": Finish,
    "binary": Binary,
    "image_url": ImageUrl,
    "shell_command": ShellCommand,
}


class Part(msgspec.Struct):
    type: str
    data: dict[str, Any]

    def __post_init__(self) -> None:
        msgspec.convert(self.data, PARTS[self.type])


class Message(msgspec.Struct):
    """`parts` has no default: without the key the client loses the message."""

    parts: list[Part] | None
    id: str
    role: Literal["user", "assistant", "tool", "system"]
    session_id: str
    model: str
    provider: str
    created_at: int
    updated_at: int
    is_summary_message: bool = False


class NoMessage(msgspec.Struct):
    """The message of an agent event, which is empty but must have its parts."""

    parts: list[Part] | None


class Todo(msgspec.Struct):
    content: str
    status: Literal["pending", "in_progress", "completed"]
    active_form: str


class Session(msgspec.Struct):
    id: str
    parent_session_id: str
    title: str
    message_count: int
    prompt_tokens: int
    completion_tokens: int
    summary_message_id: str
    cost: float
    created_at: int
    updated_at: int
    is_busy: bool
    attached_clients: int
    todos: list[Todo] = []


class File(msgspec.Struct):
    id: str
    session_id: str
    path: str
    content: str
    version: int
    created_at: int
    updated_at: int


class HistoryItem(msgspec.Struct):
    ID: str
    Path: str
    Content: str
    Version: int


class PermissionRequest(msgspec.Struct):
    id: str
    session_id: str
    tool_call_id: str
    tool_name: str
    description: str
    action: str
    params: dict[str, Any] | None
    path: str


class PermissionNotification(msgspec.Struct):
    tool_call_id: str
    granted: bool
    denied: bool


class Question(msgspec.Struct):
    id: str
    type: Literal["yes_no", "single_choice", "multi_choice", "free_text"]
    question: str
    label: str = ""
    description: str = ""
    choices: list[dict[str, str]] = []


class QuestionBatch(msgspec.Struct):
    id: str
    session_id: str
    tool_call_id: str
    questions: list[Question]


class QuestionNotification(msgspec.Struct):
    batch_id: str


class RunComplete(msgspec.Struct):
    session_id: str
    message_id: str
    run_id: str = ""
    text: str = ""
    error: str = ""
    cancelled: bool = False


class AgentEvent(msgspec.Struct):
    type: Literal["agent_finished", "error", "re_authenticate", "aws_sso_auth", "aws_sso_auth_result"]
    message: NoMessage
    error: str = ""
    run_id: str = ""
    session_id: str = ""
    session_title: str = ""


class ConfigChanged(msgspec.Struct):
    workspace_id: str


class McpEvent(msgspec.Struct):
    type: Literal["state_changed", "tools_list_changed", "prompts_list_changed", "resources_list_changed"]
    name: str
    state: Literal["disabled", "starting", "connected", "error", "needs auth"]


class McpInfo(msgspec.Struct):
    name: str
    state: Literal["disabled", "starting", "connected", "error", "needs auth"]
    connected_at: str


class LspInfo(msgspec.Struct):
    name: str
    state: int
    connected_at: str


class SkillInfo(msgspec.Struct):
    id: str
    name: str
    description: str
    label: str
    source: Literal["system", "user", "project"]
    user_invocable: bool


class SelectedModel(msgspec.Struct):
    model: str
    provider: str


class Model(msgspec.Struct):
    id: str
    name: str
    context_window: int
    cost_per_1m_in: float
    cost_per_1m_out: float
    cost_per_1m_in_cached: float
    cost_per_1m_out_cached: float
    default_max_tokens: int
    can_reason: bool
    supports_attachments: bool


class AgentInfo(msgspec.Struct):
    is_busy: bool
    is_ready: bool
    model: Model
    model_cfg: SelectedModel


class Options(msgspec.Struct):
    tui: dict[str, Any]
    data_directory: str = ""
    disable_metrics: bool = False


class ProviderModel(msgspec.Struct):
    id: str
    name: str
    context_window: int


class Provider(msgspec.Struct):
    id: str
    name: str
    models: list[ProviderModel] = []


class Config(msgspec.Struct):
    """Without `options`, `options.tui` or `providers` as objects the client crashes."""

    options: Options
    providers: dict[str, Provider]
    models: dict[str, SelectedModel]


class Workspace(msgspec.Struct, omit_defaults=True):
    """What is cached of the workspace and sent again when it has to be made anew."""

    id: str
    path: str
    config: Config
    yolo: bool = False
    debug: bool = False
    data_dir: str = ""
    version: str = ""
    env: list[str] = []
    channels: list[str] = []


class VersionInfo(msgspec.Struct):
    version: str
    commit: str
    build_id: str
    go_version: str
    platform: str


EVENTS: dict[str, type[msgspec.Struct]] = {
    "message": Message,
    "session": Session,
    "file": File,
    "permission_request": PermissionRequest,
    "permission_notification": PermissionNotification,
    "question_batch_request": QuestionBatch,
    "question_batch_notification": QuestionNotification,
    "run_complete": RunComplete,
    "agent_event": AgentEvent,
    "config_changed": ConfigChanged,
    "mcp_event": McpEvent,
}
"""The payloads it knows; others are skipped."""


class Envelope(msgspec.Struct):
    type: str
    payload: Inner


class Inner(msgspec.Struct):
    type: Literal["created", "updated", "deleted"]
    payload: dict[str, Any]


def decode_lines(lines: list[bytes]) -> list[tuple[str, str, msgspec.Struct]]:
    """What the client makes of a stream: each `data:` line is one whole event, everything else is noise."""
    events: list[tuple[str, str, msgspec.Struct]] = []
    for line in list(lines):
        if not line.startswith(b"data:"):
            continue
        envelope = msgspec.json.decode(line.removeprefix(b"data:"), type=Envelope)
        if kind := EVENTS.get(envelope.type):
            payload = msgspec.convert(envelope.payload.payload, kind)
            events.append((envelope.type, envelope.payload.type, payload))
    return events


class ReferenceClient:
    """One process of the client on a unix socket."""

    def __init__(self, server: Bullpen, path: Path) -> None:
        self.server = server
        self.path = path
        self.client_id = str(uuid.uuid4())
        self.workspace: Workspace
        self.stream: Stream
        self._http = server.connect(host=HOST)

    def close(self) -> None:
        self._http.close()

    # Calls

    def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """A call as the original sends it: no client id, no agent of ours, JSON even without a body."""
        content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode() + b"\n"
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Go-http-client/1.1",
            "Accept-Encoding": "gzip",
        }
        return self._http.request(method, path, content=content, headers=headers)

    def call(self, method: str, path: str, kind: type[T], body: Any = None) -> T:
        """A call that must be answered with 200 and a value of this kind."""
        answer = self.send(method, path, body)
        assert answer.status_code == 200, f"{method} {path}: {answer.status_code} {answer.text[:200]}"
        return msgspec.json.decode(answer.content, type=kind)

    def tell(self, method: str, path: str, body: Any = None) -> None:
        """A call whose answer does not matter but for its status."""
        answer = self.send(method, path, body)
        assert answer.status_code == 200, f"{method} {path}: {answer.status_code} {answer.text[:200]}"

    def w(self, path: str = "") -> str:
        """A path below the workspace."""
        return f"/workspaces/{self.workspace.id}{path}"

    # Attaching

    def find_server(self) -> int:
        """Steps 1 and 2; gives back what the server said to being replaced. 409 means: use it as it is."""
        version = self.call("GET", "/version", VersionInfo)
        assert (version.version, version.build_id) != (VERSION, BUILD_ID)
        status = self.send("POST", "/control", {"command": "shutdown_if_idle"}).status_code
        assert self.send("GET", "/health").is_success
        return status

    def create(self, *, interactive: bool = True, **more: Any) -> None:
        """Steps 3 and 4."""
        env = ["PATH=/usr/bin:/bin", "HOME=/nowhere", "LANG=C.UTF-8", "EMPTY="]
        body = {"id": "", "path": str(self.path), "version": VERSION, "client_id": self.client_id, "env": env}
        self.workspace = self.call("POST", "/workspaces", Workspace, body | more)
        if self.workspace.config.providers:
            self.tell("POST", self.w("/agent/init"), {"interactive": interactive})

    def create_again(self) -> None:
        """After a 404: from the cached workspace, whose `env` was never shown to it."""
        cached = self.workspace
        assert cached.env == []
        kept = {"path": cached.path, "data_dir": cached.data_dir, "debug": cached.debug, "yolo": cached.yolo}
        body = {
            "id": cached.id,
            **kept,
            "channels": cached.channels,
            "env": None,
            "client_id": self.client_id,
        }
        self.workspace = self.call("POST", "/workspaces", Workspace, body)
        self.tell("POST", self.w("/agent/init"), {"interactive": True})
        self.subscribe()

    def subscribe(self, *, expect: int = 200) -> None:
        target = self.w(f"/events?client_id={self.client_id}")
        self.stream = self.server.stream(
            target, {"Host": HOST, "User-Agent": "Go-http-client/1.1"}, expect=expect
        )

    def resubscribe(self, *, expect: int = 200) -> None:
        """The stream has ended cleanly, which is the only end after which it tries again."""
        self.stream.wait_end()
        assert "transfer-encoding" not in self.stream.headers
        assert "content-length" not in self.stream.headers
        time.sleep(RESUBSCRIBE_S)
        self._http.close()
        self._http = self.server.connect(host=HOST)
        self.subscribe(expect=expect)

    def attach_terminal(self) -> None:
        """The whole sequence of the interactive program."""
        self.find_server()
        self.create()
        self.call("GET", self.w("/permissions/skip"), dict[str, bool])
        self.agent()
        self.agent()
        self.call("GET", self.w("/project/needs-init"), dict[str, bool])
        self.subscribe()
        self.call("GET", self.w("/mcp/states"), dict[str, McpInfo])
        self.call("GET", self.w("/skills"), list[SkillInfo])
        self.call("GET", self.w("/messages/user"), list[Message])
        self.call("GET", self.w("/lsps"), dict[str, LspInfo])
        self.look()
        self.call("GET", self.w("/mcp/pending-auth"), list[dict[str, str]])

    def leave(self) -> None:
        self.stream.cut()
        self.tell("DELETE", f"/clients/{self.client_id}")

    # Steady state

    def agent(self) -> AgentInfo:
        """Without `is_ready` the program refuses prompts."""
        info = self.call("GET", self.w("/agent"), AgentInfo)
        assert info.is_ready
        return info

    def look(self, session_id: str = "") -> None:
        """What almost any event or key causes."""
        for _ in range(3):
            self.agent()
        self.call("GET", self.w("/permissions/skip"), dict[str, bool])
        if session_id:
            self.call("GET", self.w(f"/agent/sessions/{session_id}/prompts/list"), Queue)

    def first_prompt(self, text: str) -> str:
        """Gives back the session's id."""
        self.agent()
        session_id = self.call("POST", self.w("/sessions"), Session, {"title": "New Session"}).id
        self.prompt(session_id, text)
        self.open_session(session_id)
        return session_id

    def later_prompt(self, session_id: str, text: str) -> None:
        self.agent()
        self.call("GET", self.w(f"/sessions/{session_id}/messages/user"), list[Message])
        self.prompt(session_id, text)

    def prompt(self, session_id: str, text: str, run_id: str = "") -> None:
        body = {"session_id": session_id, "prompt": text} | ({"run_id": run_id} if run_id else {})
        assert self.send("POST", self.w("/agent"), body).status_code in {200, 202}

    def open_session(self, session_id: str) -> list[Message]:
        """Show a session, also again after a lost stream."""
        self.tell("POST", self.w(f"/current-session?client_id={self.client_id}"), {"session_id": session_id})
        session = self.w(f"/sessions/{session_id}")
        self.call("GET", session, Session)
        self.call("GET", session + "/history", list[HistoryItem])
        self.call("GET", session + "/filetracker/files", list[str])
        messages = self.call("GET", session + "/messages", list[Message])
        self.call("GET", session + "/messages/user", list[Message])
        self.call("GET", self.w(f"/agent/sessions/{session_id}/prompts/list"), Queue)
        return messages

    def events(self) -> list[tuple[str, str, msgspec.Struct]]:
        """Everything its stream has brought, decoded."""
        return decode_lines(self.stream.lines)
