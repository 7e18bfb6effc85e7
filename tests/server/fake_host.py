"""A host with one workspace that answers from a table and remembers what it was asked.

The routes are tested against this, the real host in its own tests and in the journeys; the type checker
sees to it that both have the same methods.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from bullpen.errors import LanguageServerNotFound, WorkspaceNotFound
from bullpen.schema import agent as nouns
from bullpen.schema.api import (
    Dropped,
    FileContent,
    FileHit,
    ImportedToken,
    KeyChecked,
    LoginCode,
    LoginState,
    NewWorkspace,
    PromptAccepted,
    PromptText,
    RememberedModels,
    ShellDone,
    SkillContent,
    SkillOrigin,
    Trust,
    Woken,
)
from bullpen.schema.asks import Explanation, Grant, Rule
from bullpen.schema.changes import ChangeHunk, FileUndo, TurnSummary, Undone, UndoPreview
from bullpen.schema.choices import SessionChoices
from bullpen.schema.events import RunWaiting
from bullpen.schema.jobs import Job, JobOutput
from bullpen.schema.runs import Run
from bullpen.schema.session import HistoryItem, Pin, SearchHit, Session
from bullpen.server.app import build_app

CLIENT = "6f1c2a34-1111-4222-8333-944444444444"
TOKEN = "t" * 43
WORKSPACE = nouns.Workspace(id="w1", path="/x", data_dir="/d", version="1", config={"options": {}})
SESSION = Session(
    id="s1",
    parent_session_id="",
    title="<b> & more",
    message_count=2,
    prompt_tokens=100,
    completion_tokens=10,
    summary_message_id="",
    cost=0.5,
    created_at=1794703735,
    updated_at=1794703736,
    is_busy=True,
    attached_clients=1,
)
RULE = Rule(id="r", effect="deny", command="git push *", created_at=4)
QUEUED = nouns.QueuedPrompt(seq=7, session_id="s1", run_id="r1", text="later", created_at=5)
STATS = nouns.ServerStats(counts={"resyncs": 1}, gauges={"streams": 2})
VERSION = nouns.VersionInfo(version="1", commit="c", build_id="b", go_version="", platform="linux/amd64")

PREVIEW = UndoPreview(
    turn=7,
    session_id="s1",
    fingerprint="f",
    files=(
        FileUndo(
            path="a",
            change="modified",
            status="ready",
            hunks=(ChangeHunk(id="h", text="-a\n+b\n"),),
            additions=1,
        ),
    ),
    conflicts=0,
    uncovered=0,
)
UNDONE = Undone(turn=7, session_id="s1", restored=("a",), notes=("n",))
TRUST = Trust(trusted=True, fingerprint="f")

JOB = Job(
    id="001", session_id="s1", command="make", working_dir="/x", running=True, output_bytes=5, started_at=1.5
)

IMMEDIATE: dict[str, Any] = {
    "cancel_login": None,
    "list_jobs": [JOB],
    "describe": WORKSPACE,
    "config": {"options": {}},
    "clients": [nouns.ClientInfo(client_id=CLIENT, name="ana", streams=1)],
    "set_current_session": None,
    "init_prompt": "Look around.",
    "skills": [
        nouns.SkillInfo(id="k", name="k", description="d", label="k", source="user", user_invocable=True)
    ],
    "custom_commands": [nouns.CommandInfo(id="user:c", name="c", source="user", usage="/c")],
    "expand_command": PromptText(prompt="Look here."),
    "default_small_model": nouns.SelectedModel(model="small", provider="p"),
    "skip": True,
    "lsps": {"gopls": nouns.LspInfo(name="gopls", state=2, connected_at=nouns.ZERO_TIME)},
    "diagnostics": LanguageServerNotFound("nope"),
    "mcp_states": {"docs": nouns.McpInfo(name="docs", state="connected", connected_at=nouns.ZERO_TIME)},
    "mcp_prompts": [],
    "mcp_resources": [nouns.McpResource(name="docs", uri="note://1", title="One")],
    "mcp_pending_auth": [{"name": "docs", "url": "https://sign.in"}],
    "mcp_auth_url": "https://sign.in",
    "trust": TRUST,
}

LATER: dict[str, Any] = {
    "job_output": JobOutput(offset=0, text="built", next_offset=5, total=5, running=True),
    "kill_job": JOB,
    "needs_init": True,
    "mark_initialized": None,
    "read_skill": SkillContent(
        content=b"Use it.", result=SkillOrigin(name="k", description="d", source="user", builtin=False)
    ),
    "sessions": [SESSION],
    "create_session": SESSION,
    "session": SESSION,
    "change_session": SESSION,
    "delete_session": None,
    "pins": [Pin(id="p1", session_id="s1", text="t", created_at=1)],
    "pin": Pin(id="p1", session_id="s1", text="t", created_at=1),
    "unpin": None,
    "undo_summary": SESSION,
    "changes": [
        TurnSummary(
            turn=7,
            session_id="s1",
            prompt="p",
            created_at=1,
            created=0,
            modified=1,
            deleted=0,
            paths=("a",),
            state="changed",
        )
    ],
    "preview_undo": PREVIEW,
    "preview_redo": PREVIEW,
    "undo": UNDONE,
    "redo": UNDONE,
    "runs": [Run(run_id="r1", session_id="s1", state="active", prompt="go", created_at=5)],
    "run": Run(run_id="r1", session_id="s1", state="active", prompt="go", created_at=5),
    "waiting": [RunWaiting(session_id="s1", reason="busy", until=2.5, attempt=1)],
    "wake": Woken(woken=True),
    "spending": [
        nouns.SpentRow(
            key="k", calls=1, input=2, output=3, cache_read=4, cache_write=5, cost=0.5, estimated=0
        )
    ],
    "tool_calls": [nouns.ToolCallsRow(key="bash", calls=3, failed=1, took_s=0.5)],
    "choices": SessionChoices(session_id="s1"),
    "change_choices": SessionChoices(session_id="s1"),
    "messages": b"[]",
    "user_messages": b"[]",
    "history": [
        HistoryItem(id="f", session_id="s1", path="/x/n", content="", version=0, created_at=1, updated_at=2)
    ],
    "find": [FileHit(path="src/")],
    "read": FileContent(file_path="a.py:7", file_name="a.py:7", mime_type="text/x-python", content=b"a"),
    "read_files": ["/x/n"],
    "mark_read": None,
    "last_read": nouns.ZERO_TIME,
    "search": [SearchHit(session_id="s1", message_id="m1", role="user", snippet="a [word]", created_at=3)],
    "agent_info": nouns.AgentInfo(
        is_busy=False, is_ready=True, model=nouns.Model(id="m"), model_cfg=nouns.SelectedModel(model="m")
    ),
    "init_agent": None,
    "update_agent": None,
    "accept": PromptAccepted(run_id="r1"),
    "agent_session": SESSION,
    "cancel": Dropped(dropped=("later",)),
    "queue": [QUEUED],
    "clear_queue": Dropped(dropped=("later",)),
    "edit_queued": QUEUED,
    "withdraw": None,
    "summarize": None,
    "shell": ShellDone(output="hello\n", exit_code=0),
    "grant": True,
    "set_skip": None,
    "grants": [
        Grant(id="g", scope="exact", session_id="s1", tool_name="bash", action="run", path="/x", created_at=4)
    ],
    "revoke": None,
    "rules": [RULE],
    "add_rule": RULE,
    "remove_rule": None,
    "explain": Explanation(outcome="allowed", why="it reads"),
    "asks": b'{"permissions":[],"questions":[]}',
    "answer_questions": True,
    "cancel_questions": False,
    "offers": [],
    "remembered": RememberedModels(
        recent={"large": (nouns.SelectedModel(model="m", provider="p"),)}, favorites=()
    ),
    "favor": None,
    "config_set": None,
    "config_remove": None,
    "config_model": None,
    "config_compact": None,
    "provider_key": None,
    "import_copilot": ImportedToken(),
    "begin_login": LoginCode(
        user_code="A-1", verification_uri="https://github.com/login/device", expires_in=900.0
    ),
    "login_state": LoginState(state="waiting", message="wait"),
    "check_key": KeyChecked(verdict="good", message="it works"),
    "refresh_oauth": None,
    "give_trust": TRUST,
    "revoke_trust": TRUST,
    "lsp_start": None,
    "lsp_stop": None,
    "mcp_get_prompt": "Filled in.",
    "mcp_read_resource": [{"uri": "u", "text": "t"}],
    "mcp_refresh": None,
    "mcp_restart": None,
    "mcp_changes": [nouns.McpChanges(name="docs", fingerprint="f")],
    "mcp_accept": None,
    "mcp_auth": None,
    "mcp_logout": True,
    "mcp_docker": None,
}


class FakeWorkspace:
    """Every method answers from a table; an exception there is raised."""

    id = "w1"
    cursor = "e1-7"

    def __init__(self, calls: list[Any]) -> None:
        self.answers = IMMEDIATE | LATER
        self.outside = self.models = self.copilot_login = self.commands = self.browsing = self
        self.upkeep = self
        self._calls = calls

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self.answers:
            raise AttributeError(name)

        def answer(*args: Any, **named: Any) -> Any:
            self._calls.append((name, *args, *([named] if named else [])))
            return self._answer(name)

        async def answer_later(*args: Any, **named: Any) -> Any:
            return answer(*args, **named)

        return answer if name in IMMEDIATE else answer_later

    def _answer(self, name: str) -> Any:
        # Whatever is made for an answer moves the log on; the cursor has to be the one from before.
        self.cursor = "e1-8"
        found = self.answers[name]
        if isinstance(found, Exception):
            raise found
        return found


class FakeHost:
    """One workspace, `w1`. `failure` is raised by whatever is called next."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.workspace = FakeWorkspace(self.calls)
        self.failure: Exception | None = None
        self.on_ready: Callable[[], Awaitable[None]] | None = None

    def find(self, workspace_id: str) -> FakeWorkspace:
        if workspace_id != "w1":
            raise WorkspaceNotFound(workspace_id)
        return self.workspace

    def all(self) -> list[FakeWorkspace]:
        return [self.workspace]

    def version(self) -> nouns.VersionInfo:
        return VERSION

    def stats(self) -> nouns.ServerStats:
        return STATS

    async def wait_ready(self) -> None:
        if self.on_ready is not None:
            await self.on_ready()

    async def create(self, body: NewWorkspace) -> nouns.Workspace:
        await self._call("create", body)
        return WORKSPACE

    async def release(self, workspace_id: str, client_id: str) -> None:
        await self._call("release", workspace_id, client_id)

    async def retire(self, client_id: str) -> None:
        await self._call("retire", client_id)

    async def control(self, command: str, *, keep_alive: bool) -> None:
        await self._call("control", command, {"keep_alive": keep_alive})

    async def _call(self, *call: Any) -> None:
        self.calls.append(call)
        if self.failure is not None:
            raise self.failure


def app_of(host: FakeHost, token: str | None = TOKEN) -> ASGIApp:
    fake: Any = host
    return build_app(fake, token=token)


def over_unix(app: ASGIApp) -> ASGIApp:
    """The application as a client on the unix socket meets it."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "extensions": {"bullpen": {"unix": True}}}, receive, send)

    return serve


def client_of(app: ASGIApp, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8080", **options)
