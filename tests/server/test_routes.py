"""Every endpoint once, and the rules that hold for all: routing, order of checks, errors, limits, the log."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import httpx
import pytest
from tests.server.fake_host import CLIENT, FakeHost, app_of, client_of, over_unix

from bullpen import errors
from bullpen.schema.agent import SelectedModel
from bullpen.schema.api import (
    AgentInit,
    Attachment,
    CommandUse,
    ConfigCompact,
    ConfigModel,
    ConfigRemove,
    ConfigSet,
    ExplainCall,
    FavoriteModel,
    GrantedPermission,
    KeyToCheck,
    McpAccept,
    McpGetPrompt,
    McpReadResource,
    NewPrompt,
    NewRule,
    NewWorkspace,
    PermissionAnswer,
    ProviderKey,
    QuestionAnswer,
    QueueEdit,
    RefreshOauth,
    SessionChange,
    ShellRun,
    TrustGiven,
)
from bullpen.schema.asks import QuestionResponse
from bullpen.schema.changes import UndoRequest
from bullpen.schema.choices import ChoicesChange
from bullpen.server import app as app_module
from bullpen.server.errors import STATUSES, reply_to
from bullpen.server.routing import Endpoint, Router, get, parse_uuid

SESSION = (
    '{"id":"s1","parent_session_id":"","title":"<b> & more","message_count":2,"prompt_tokens":100,'
    '"completion_tokens":10,"summary_message_id":"","cost":0.5,"created_at":1794703735,'
    '"updated_at":1794703736,"is_busy":true,"attached_clients":1}'
)
TRUST = '{"trusted":true,"by_server":false,"fingerprint":"f","settings":[],"effects":[]}'
WORKSPACE = '{"id":"w1","path":"/x","data_dir":"/d","version":"1","config":{"options":{}}}'
QUEUED = '{"seq":7,"session_id":"s1","run_id":"r1","text":"later","created_at":5}'
MODEL = (
    '{"id":"m","name":"","cost_per_1m_in":0,"cost_per_1m_out":0,"cost_per_1m_in_cached":0,'
    '"cost_per_1m_out_cached":0,"context_window":0,"default_max_tokens":0,"can_reason":false,'
    '"supports_attachments":false}'
)
GRANT = '{"id":"g","scope":"exact","session_id":"s1","tool_name":"bash","action":"run","path":"/x","created_at":4}'
STATS = '{"counts":{"resyncs":1},"gauges":{"streams":2}}'
VERSION = '{"version":"1","commit":"c","build_id":"b","go_version":"","platform":"linux/amd64"}'
ZERO = "0001-01-01T00:00:00Z"
W = "/v1/workspaces/w1"
S = f"{W}/sessions/s1"
A = f"{W}/agent/sessions/s1"

PIN = '{"id":"p1","session_id":"s1","text":"t","created_at":1}'
JOB = (
    '{"id":"001","session_id":"s1","command":"make","working_dir":"/x","running":true,"output_bytes":5,'
    '"started_at":1.5}'
)
PREVIEW = (
    '{"turn":7,"session_id":"s1","fingerprint":"f","files":[{"path":"a","change":"modified","status":"ready","additions":1,'
    '"hunks":[{"id":"h","text":"-a\\n+b\\n"}]}],"conflicts":0,"uncovered":0}'
)
UNDONE = '{"turn":7,"session_id":"s1","restored":["a"],"notes":["n"]}'
WAITING = '{"session_id":"s1","reason":"busy","until":2.5,"attempt":1}'
RUN = '{"run_id":"r1","session_id":"s1","state":"active","prompt":"go","created_at":5}'
SPENT = '{"key":"k","calls":1,"input":2,"output":3,"cache_read":4,"cache_write":5,"cost":0.5,"estimated":0}'

CALLS: list[tuple[str, Any, str, Any]] = [
    # Request, body, answer (empty: no body at all), what the host or the workspace was asked.
    ("GET /v1/health", None, "", None),
    ("GET /v1/version", None, VERSION, None),
    ("GET /v1/stats", None, STATS, None),
    ("GET /v1/config", None, "{}", None),
    ("POST /v1/control", {"command": "shutdown"}, "", ("control", "shutdown", {"keep_alive": False})),
    (f"DELETE /v1/clients/{CLIENT}", None, "", ("retire", CLIENT)),
    ("GET /v1/workspaces", None, f"[{WORKSPACE}]", ("describe",)),
    (
        "POST /v1/workspaces",
        {"path": "/x", "client_id": CLIENT.upper(), "env": ["A=b"], "outlive": True},
        WORKSPACE,
        ("create", NewWorkspace(path="/x", client_id=CLIENT, env=("A=b",), outlive=True)),
    ),
    (f"GET {W}", None, WORKSPACE, ("describe",)),
    (f"DELETE {W}?client_id={CLIENT}", None, "", ("release", "w1", CLIENT)),
    (
        f"POST {W}/current-session?client_id={CLIENT}",
        {"session_id": "s1"},
        "",
        ("set_current_session", CLIENT, "s1"),
    ),
    (f"GET {W}/config", None, '{"options":{}}', ("config",)),
    (f"GET {W}/providers", None, "null", ("offers",)),
    (
        f"GET {W}/models",
        None,
        '{"recent":{"large":[{"model":"m","provider":"p"}]},"favorites":[]}',
        ("remembered",),
    ),
    (
        f"POST {W}/models/favorite",
        {"provider": "p", "model": "m"},
        "",
        ("favor", FavoriteModel(provider="p", model="m")),
    ),
    (f"GET {W}/clients", None, f'[{{"client_id":"{CLIENT}","name":"ana","streams":1}}]', ("clients",)),
    (f"GET {W}/project/needs-init", None, '{"needs_init":true}', ("needs_init",)),
    (f"POST {W}/project/init", None, "", ("mark_initialized",)),
    (f"GET {W}/project/init-prompt", None, '{"prompt":"Look around."}', ("init_prompt",)),
    (
        f"GET {W}/skills",
        None,
        '[{"id":"k","name":"k","description":"d","label":"k","source":"user","user_invocable":true}]',
        ("skills",),
    ),
    (
        f"POST {W}/skills/read",
        {"skill_id": "k"},
        '{"content":"VXNlIGl0Lg==","result":{"name":"k","description":"d","source":"user","builtin":false}}',
        ("read_skill", "k"),
    ),
    (
        f"GET {W}/commands",
        None,
        '[{"id":"user:c","name":"c","source":"user","usage":"/c"}]',
        ("custom_commands",),
    ),
    (
        f"POST {W}/commands/expand",
        {"command_id": "user:c", "text": "x", "arguments": {"A": "b"}},
        '{"prompt":"Look here."}',
        ("expand_command", CommandUse(command_id="user:c", text="x", arguments={"A": "b"})),
    ),
    (f"GET {W}/sessions", None, f"[{SESSION}]", ("sessions",)),
    (f"POST {W}/sessions", {"title": "new"}, SESSION, ("create_session", "new")),
    (f"GET {S}", None, SESSION, ("session", "s1")),
    (f"PUT {S}", {"id": "s2", "title": "t"}, SESSION, ("change_session", "s1", SessionChange(title="t"))),
    (f"GET {S}/pins", None, f"[{PIN}]", ("pins", "s1")),
    (f"POST {S}/pins", {"text": "t"}, PIN, ("pin", "s1", "t", "")),
    (f"DELETE {S}/pins/p1", None, "", ("unpin", "s1", "p1")),
    (
        f"GET {S}/changes",
        None,
        (
            '[{"turn":7,"session_id":"s1","prompt":"p","created_at":1,"created":0,"modified":1,"deleted":0,'
            '"paths":["a"],"state":"changed"}]'
        ),
        ("changes", "s1", {"limit": 50, "before": 0}),
    ),
    (f"GET {S}/changes/7/undo", None, PREVIEW, ("preview_undo", "s1", 7)),
    (
        f"POST {S}/changes/7/undo",
        {"files": ["a"], "hunks": ["h"], "fingerprint": "f"},
        UNDONE,
        ("undo", "s1", 7, UndoRequest(files=("a",), hunks=("h",), fingerprint="f"), ""),
    ),
    (f"GET {S}/changes/redo", None, PREVIEW, ("preview_redo", "s1")),
    (f"POST {S}/changes/redo", None, UNDONE, ("redo", "s1", UndoRequest(), "")),
    (f"POST {A}/summarize/undo", None, SESSION, ("undo_summary", "s1")),
    (f"GET {W}/agent/waiting", None, f"[{WAITING}]", ("waiting",)),
    (f"GET {W}/agent/runs", None, f"[{RUN}]", ("runs",)),
    (f"GET {W}/agent/runs/r1", None, RUN, ("run", "r1")),
    (f"POST {A}/wake", None, '{"woken":true}', ("wake", "s1")),
    (f"GET {W}/agent/spending?by=model&since=5", None, f"[{SPENT}]", ("spending", "model", 5)),
    (
        f"GET {W}/agent/tool_calls?since=5",
        None,
        '[{"key":"bash","calls":3,"failed":1,"took_s":0.5}]',
        ("tool_calls", 5),
    ),
    (f"GET {S}/choices", None, '{"session_id":"s1"}', ("choices", "s1")),
    (
        f"PUT {S}/choices",
        {"large": None},
        '{"session_id":"s1"}',
        ("change_choices", "s1", ChoicesChange(large=None)),
    ),
    (f"DELETE {S}", None, "", ("delete_session", "s1", "")),
    (f"GET {S}/messages", None, "[]", ("messages", "s1", {"limit": 0, "before": ""})),
    (
        f"GET {S}/messages?limit=5&before=m1",
        None,
        "[]",
        ("messages", "s1", {"limit": 5, "before": "m1"}),
    ),
    (f"GET {S}/messages/user", None, "[]", ("user_messages", "s1")),
    (f"GET {W}/messages/user", None, "[]", ("user_messages", None)),
    (
        f"GET {W}/search?q=a+word&limit=5",
        None,
        '[{"session_id":"s1","message_id":"m1","role":"user","snippet":"a [word]","created_at":3}]',
        ("search", "a word", 5),
    ),
    (
        f"GET {S}/history",
        None,
        '[{"ID":"f","SessionID":"s1","Path":"/x/n","Content":"","Version":0,"CreatedAt":1,"UpdatedAt":2}]',
        ("history", "s1"),
    ),
    (f"GET {W}/files?query=sr&limit=5", None, '[{"path":"src/"}]', ("find", "sr", 5)),
    (
        f"GET {W}/files/content?path=a.py&lines=7",
        None,
        '{"file_path":"a.py:7","file_name":"a.py:7","mime_type":"text/x-python","content":"YQ=="}',
        ("read", "a.py", "7"),
    ),
    (f"GET {S}/filetracker/files", None, '["/x/n"]', ("read_files", "s1")),
    (f"POST {W}/filetracker/read", {"session_id": "s1", "path": "/x"}, "", ("mark_read", "s1", "/x")),
    (f"GET {W}/filetracker/lastread?session_id=s1&path=%2Fx", None, f'"{ZERO}"', ("last_read", "s1", "/x")),
    (
        f"GET {W}/agent",
        None,
        f'{{"is_busy":false,"is_ready":true,"model":{MODEL},"model_cfg":{{"model":"m","provider":""}}}}',
        ("agent_info",),
    ),
    (
        f"POST {W}/agent",
        {"session_id": "s1", "prompt": "go", "attachments": [{"file_name": "f", "content": "aGk="}]},
        '{"run_id":"r1"}',
        (
            "accept",
            NewPrompt(session_id="s1", prompt="go", attachments=(Attachment(file_name="f", content=b"hi"),)),
            {"idempotency_key": "", "author": "", "client": ""},
        ),
    ),
    (f"POST {W}/agent/init", {"interactive": True}, "", ("init_agent", True)),
    (f"POST {W}/agent/update", None, "", ("update_agent",)),
    (
        f"GET {W}/agent/default-small-model?provider_id=p",
        None,
        '{"model":"small","provider":"p"}',
        ("default_small_model", "p"),
    ),
    (f"GET {A}", None, SESSION, ("agent_session", "s1")),
    (f"POST {A}/cancel", None, '{"dropped":["later"]}', ("cancel", "s1")),
    (f"POST {A}/summarize", None, "", ("summarize", "s1")),
    (
        f"POST {A}/shell",
        {"command": "echo hello", "term_width": 80},
        '{"output":"hello\\n","exit_code":0}',
        ("shell", "s1", ShellRun(command="echo hello", term_width=80)),
    ),
    (f"GET {W}/jobs?session_id=s1", None, f"[{JOB}]", ("list_jobs", "s1")),
    (
        f"GET {W}/jobs/001/output?offset=3&wait=2",
        None,
        '{"offset":0,"text":"built","next_offset":5,"total":5,"running":true}',
        ("job_output", "001", 3, 2),
    ),
    (f"DELETE {W}/jobs/001", None, JOB, ("kill_job", "001")),
    (f"GET {A}/prompts", None, f"[{QUEUED}]", ("queue", "s1")),
    (f"GET {A}/prompts/queued", None, "1", ("queue", "s1")),
    (f"GET {A}/prompts/list", None, '["later"]', ("queue", "s1")),
    (f"POST {A}/prompts/clear", None, "", ("clear_queue", "s1")),
    (f"PATCH {A}/prompts/7", {"index": 0}, QUEUED, ("edit_queued", "s1", 7, QueueEdit(index=0))),
    (f"DELETE {A}/prompts/7", None, "", ("withdraw", "s1", 7)),
    (
        f"POST {W}/permissions/grant",
        {"permission": {"id": "p", "params": "text", "tool_name": "bash"}, "action": "allow_exact"},
        '{"resolved":true}',
        (
            "grant",
            PermissionAnswer(permission=GrantedPermission(id="p", params="text"), action="allow_exact"),
            "",
        ),
    ),
    (f"GET {W}/permissions/skip", None, '{"skip":true}', ("skip",)),
    (f"POST {W}/permissions/skip", {"skip": True}, "", ("set_skip", True, "")),
    (
        f"GET {W}/permissions/grants",
        None,
        f"[{GRANT}]",
        ("grants",),
    ),
    (f"DELETE {W}/permissions/grants/g", None, "", ("revoke", "g")),
    (
        f"GET {W}/permissions/rules",
        None,
        '[{"id":"r","effect":"deny","command":"git push *","created_at":4}]',
        ("rules",),
    ),
    (
        f"POST {W}/permissions/rules",
        {"effect": "deny", "command": "git push *", "scope": "person"},
        '{"id":"r","effect":"deny","command":"git push *","created_at":4}',
        ("add_rule", NewRule(effect="deny", command="git push *", scope="person"), ""),
    ),
    (f"DELETE {W}/permissions/rules/r", None, "", ("remove_rule", "r")),
    (
        f"POST {W}/permissions/explain",
        {"command": "ls"},
        '{"outcome":"allowed","why":"it reads","rules":[]}',
        ("explain", ExplainCall(command="ls"), ""),
    ),
    (
        f"POST {W}/questions/answer",
        {"batch_request_id": "b", "responses": [{"request_id": "q", "yes": True}]},
        '{"resolved":true}',
        (
            "answer_questions",
            QuestionAnswer(batch_request_id="b", responses=(QuestionResponse(request_id="q", yes=True),)),
            "",
        ),
    ),
    (f"POST {W}/questions/cancel", None, '{"resolved":false}', ("cancel_questions", "", "")),
    (f"GET {W}/asks", None, '{"permissions":[],"questions":[]}', ("asks",)),
    (
        f"POST {W}/config/set",
        {"scope": 1, "key": "a.b", "value": [1]},
        "",
        ("config_set", ConfigSet(scope=1, key="a.b", value=[1])),
    ),
    (f"GET {W}/trust", None, TRUST, ("trust",)),
    (f"POST {W}/trust", {"fingerprint": "f"}, TRUST, ("give_trust", TrustGiven(fingerprint="f"))),
    (f"DELETE {W}/trust", None, TRUST, ("revoke_trust", "")),
    (f"DELETE {W}/trust?item=mcp.a", None, TRUST, ("revoke_trust", "mcp.a")),
    (f"POST {W}/config/remove", {"key": "a"}, "", ("config_remove", ConfigRemove(key="a"))),
    (
        f"POST {W}/config/model",
        {"model_type": "large", "model": {"model": "m", "provider": "p"}},
        "",
        ("config_model", ConfigModel(model_type="large", model=SelectedModel(model="m", provider="p"))),
    ),
    (f"POST {W}/config/compact", {"enabled": True}, "", ("config_compact", ConfigCompact(enabled=True))),
    (
        f"POST {W}/config/provider-key",
        {"provider_id": "p", "kind": "string", "api_key": "sk"},
        "",
        ("provider_key", ProviderKey(provider_id="p", kind="string", api_key="sk")),
    ),
    (
        f"POST {W}/config/check-key",
        {"provider_id": "p", "api_key": "sk"},
        '{"verdict":"good","message":"it works"}',
        ("check_key", KeyToCheck(provider_id="p", api_key="sk")),
    ),
    (
        f"POST {W}/config/copilot-login",
        None,
        '{"user_code":"A-1","verification_uri":"https://github.com/login/device","expires_in":900.0}',
        ("begin_login",),
    ),
    (
        f"GET {W}/config/copilot-login?wait=5",
        None,
        '{"state":"waiting","message":"wait"}',
        ("login_state", 5),
    ),
    (f"DELETE {W}/config/copilot-login", None, "", ("cancel_login",)),
    (f"POST {W}/config/import-copilot", None, '{"token":null,"success":false}', ("import_copilot",)),
    (
        f"POST {W}/config/refresh-oauth",
        {"provider_id": "p"},
        "",
        ("refresh_oauth", RefreshOauth(provider_id="p")),
    ),
    (
        f"GET {W}/lsps",
        None,
        f'{{"gopls":{{"name":"gopls","state":2,"connected_at":"{ZERO}"}}}}',
        ("lsps",),
    ),
    (f"POST {W}/lsps/start", {"path": "a.go"}, "", ("lsp_start", "a.go")),
    (f"POST {W}/lsps/stop", None, "", ("lsp_stop",)),
    (
        f"GET {W}/mcp/states",
        None,
        f'{{"docs":{{"name":"docs","state":"connected","connected_at":"{ZERO}"}}}}',
        ("mcp_states",),
    ),
    (f"GET {W}/mcp/prompts", None, "[]", ("mcp_prompts",)),
    (
        f"GET {W}/mcp/resources",
        None,
        '[{"name":"docs","uri":"note://1","title":"One"}]',
        ("mcp_resources",),
    ),
    (
        f"POST {W}/mcp/get-prompt",
        {"client_id": "docs", "prompt_id": "p", "args": {"a": "b"}},
        '{"prompt":"Filled in."}',
        ("mcp_get_prompt", McpGetPrompt(client_id="docs", prompt_id="p", args={"a": "b"})),
    ),
    (
        f"POST {W}/mcp/read-resource",
        {"name": "docs", "uri": "u"},
        '[{"uri":"u","text":"t"}]',
        ("mcp_read_resource", McpReadResource(name="docs", uri="u")),
    ),
    (f"POST {W}/mcp/refresh-tools", {"name": "docs"}, "", ("mcp_refresh", "tools", "docs")),
    (f"POST {W}/mcp/refresh-prompts", {"name": "docs"}, "", ("mcp_refresh", "prompts", "docs")),
    (f"POST {W}/mcp/refresh-resources", {"name": "docs"}, "", ("mcp_refresh", "resources", "docs")),
    (f"POST {W}/mcp/restart", {"name": "docs"}, "", ("mcp_restart", "docs")),
    (f"GET {W}/mcp/changes", None, '[{"name":"docs","fingerprint":"f"}]', ("mcp_changes",)),
    (
        f"POST {W}/mcp/accept",
        {"name": "docs", "fingerprint": "f"},
        "",
        ("mcp_accept", McpAccept(name="docs", fingerprint="f")),
    ),
    (f"GET {W}/mcp/pending-auth", None, '[{"name":"docs","url":"https://sign.in"}]', ("mcp_pending_auth",)),
    (f"GET {W}/mcp/auth-url?name=docs", None, '{"auth_url":"https://sign.in"}', ("mcp_auth_url", "docs")),
    (f"POST {W}/mcp/auth", {"name": "docs"}, "{}", ("mcp_auth", "docs")),
    (f"POST {W}/mcp/logout", {"name": "docs"}, '{"was_signed_in":true}', ("mcp_logout", "docs")),
    (f"POST {W}/mcp/docker/enable", None, "", ("mcp_docker", {"enabled": True})),
    (f"POST {W}/mcp/docker/disable", None, "", ("mcp_docker", {"enabled": False})),
]

ELSEWHERE = {
    "follow_events": "tests of the stream",
    "show_diagnostics": "test_an_unknown_language_server_is_404",
    "openapi_document": "test_openapi",
    "openapi_document_too": "test_openapi",
    "events_document": "test_openapi",
    "api_page": "test_openapi",
    **dict.fromkeys(
        (
            "list_all_sessions",
            "search_everywhere",
            "fork_session",
            "preview_rewind",
            "rewind_session",
            "list_trash",
            "list_trash_at",
            "restore_session",
            "forget_session",
            "export_session",
            "export_any_session",
            "import_session",
        ),
        "tests/journeys/test_sessions.py",
    ),
}
"""Endpoints that the table leaves to others."""

FREE_OF_WORKSPACES = {
    f"{W}/mcp/states",
    f"{W}/mcp/refresh-prompts",
    f"{W}/mcp/refresh-resources",
    f"{W}/mcp/auth-url",
}
"""Here an unknown workspace is no error, as on the reference."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
async def http(host: FakeHost) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(over_unix(app_of(host))) as client:
        yield client


async def call(http: httpx.AsyncClient, request: str, body: Any = None, **options: Any) -> httpx.Response:
    method, target = request.split()
    return await http.request(method, target, json=body, **options)


def error_of(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, answer.json()["message"]


# Every endpoint


@pytest.mark.parametrize(("request_line", "body", "expected", "asked"), CALLS, ids=[c[0] for c in CALLS])
async def test_an_endpoint_asks_once_and_answers_to_the_byte(
    http: httpx.AsyncClient, host: FakeHost, request_line: str, body: Any, expected: str, asked: Any
) -> None:
    answer = await call(http, request_line, body)
    assert answer.status_code == (202 if asked and asked[0] == "accept" else 200)
    assert host.calls == ([] if asked is None else [asked])
    if expected:
        assert (answer.text, answer.headers["content-type"]) == (expected + "\n", "application/json")
    else:
        assert (answer.content, answer.headers["content-length"]) == (b"", "0")
        assert "content-type" not in answer.headers


def test_the_table_has_every_endpoint() -> None:
    """A new endpoint is entered in the table, or named among those that are tested elsewhere."""
    router = Router(app_module.endpoints())
    called = set()
    for line, *_ in CALLS:
        method, target = line.split()
        match = router.match(target.partition("?")[0].split("/")[1:])
        assert match is not None, line
        called.add(match.methods[method].name)
    assert called | ELSEWHERE.keys() == {endpoint.name for endpoint in router.endpoints}


@pytest.mark.parametrize("request_line", [c[0] for c in CALLS if c[0].split()[1].startswith(W)])
async def test_an_unknown_workspace_is_404_whatever_the_body(
    http: httpx.AsyncClient, host: FakeHost, request_line: str
) -> None:
    """The workspace is looked up before anything else of the request is read."""
    method, target = request_line.replace("w1", "gone").split()
    answer = await http.request(method, target, content=b"{nope")
    plain = target.partition("?")[0].replace("gone", "w1")
    if request_line.startswith(f"DELETE {W}?"):
        assert answer.status_code == 200
    elif plain in FREE_OF_WORKSPACES:
        assert answer.status_code == (400 if method == "POST" else 200)
    else:
        assert error_of(answer) == (404, "workspace not found")


async def test_an_unknown_workspace_has_no_tool_servers(http: httpx.AsyncClient) -> None:
    """The reference's clients ask without looking whether the workspace is still there."""
    states = await call(http, "GET /v1/workspaces/gone/mcp/states")
    url = await call(http, "GET /v1/workspaces/gone/mcp/auth-url?name=x")
    refreshed = await call(http, "POST /v1/workspaces/gone/mcp/refresh-prompts", {"name": "x"})
    assert (states.json(), url.json(), refreshed.status_code) == ({}, {}, 200)


# Events


async def test_the_stream_checks_workspace_then_client(http: httpx.AsyncClient) -> None:
    gone = await call(http, "GET /v1/workspaces/gone/events")
    missing = await call(http, f"GET {W}/events")
    malformed = await call(http, f"GET {W}/events?client_id=nope")
    assert [error_of(answer) for answer in (gone, missing, malformed)] == [
        (404, "workspace not found"),
        (400, "client_id is required"),
        (400, "client_id is not a valid UUID"),
    ]


async def test_the_head_of_a_stream_opens_none(http: httpx.AsyncClient, host: FakeHost) -> None:
    answer = await call(http, f"HEAD {W}/events?client_id={CLIENT}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
    assert host.calls == []


# What requests may leave out or get wrong


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "path is required"),
        ({"path": "", "client_id": "nope"}, "path is required"),
        ({"path": "/x"}, "invalid client_id"),
        ({"path": "/x", "client_id": "nope"}, "invalid client_id: invalid UUID length: 4"),
        ({"path": "/x", "client_id": "z" * 36}, "invalid client_id: invalid UUID format"),
    ],
)
async def test_create_checks_the_path_and_then_the_client(
    http: httpx.AsyncClient, host: FakeHost, body: Any, message: str
) -> None:
    answer = await call(http, "POST /v1/workspaces", body)
    assert (error_of(answer), host.calls) == ((400, message), [])


async def test_retiring_needs_a_valid_id(http: httpx.AsyncClient) -> None:
    answer = await call(http, "DELETE /v1/clients/nope")
    assert error_of(answer) == (400, "invalid client_id: invalid UUID length: 4")


@pytest.mark.parametrize(
    "text", [f"{{{CLIENT}}}", f"urn:uuid:{CLIENT}", CLIENT.replace("-", ""), CLIENT.upper()]
)
def test_a_uuid_has_four_spellings_and_one_meaning(text: str) -> None:
    assert parse_uuid(text) == CLIENT


async def test_the_reference_client_never_stops_the_server(http: httpx.AsyncClient, host: FakeHost) -> None:
    await call(http, "POST /v1/control", {"command": "shutdown"}, headers={"Host": "api.crush.localhost"})
    assert host.calls == [("control", "shutdown", {"keep_alive": True})]


async def test_an_optional_body_may_be_missing(http: httpx.AsyncClient, host: FakeHost) -> None:
    await call(http, f"POST {W}/agent/init")
    assert host.calls == [("init_agent", AgentInit().interactive)]


async def test_a_body_may_come_in_pieces_and_loosely_spelled(http: httpx.AsyncClient, host: FakeHost) -> None:
    """Chunked, keys in capitals, unknown keys, and text after the value."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"TITLE": "ca'
        yield b'ps", "other": 1} trailing'

    answer = await http.post(f"{W}/sessions", content=pieces())
    assert (answer.status_code, host.calls) == (200, [("create_session", "caps")])


@pytest.mark.parametrize("raw", [b"", b"{nope", b"[", b'{"title": 5}', b"\xff\xfe", b"[" * 100_000, b"1e999"])
async def test_an_undecodable_body_is_400(http: httpx.AsyncClient, host: FakeHost, raw: bytes) -> None:
    answer = await http.post(f"{W}/sessions", content=raw)
    assert (error_of(answer), host.calls) == ((400, "failed to decode request"), [])


async def test_prompts_carry_author_and_key(http: httpx.AsyncClient, host: FakeHost) -> None:
    headers = {"Idempotency-Key": "k1", "Bullpen-Author": "Änne".encode(), "Bullpen-Client-Id": CLIENT}
    await call(http, f"POST {W}/agent", {"session_id": "s1", "prompt": "go"}, headers=headers)
    assert host.calls[0][2] == {"idempotency_key": "k1", "author": "Änne", "client": CLIENT}


async def test_without_a_name_the_client_is_the_author(http: httpx.AsyncClient, host: FakeHost) -> None:
    headers = {"Bullpen-Client-Id": CLIENT}
    await call(http, f"POST {W}/questions/cancel", {"batch_request_id": "b"}, headers=headers)
    assert host.calls == [("cancel_questions", "b", CLIENT)]


async def test_a_long_header_is_refused(http: httpx.AsyncClient) -> None:
    answer = await call(http, f"POST {W}/agent", {}, headers={"Idempotency-Key": "k" * 256})
    assert error_of(answer) == (400, "Idempotency-Key is longer than 255 characters")


async def test_an_empty_queue_is_null(http: httpx.AsyncClient, host: FakeHost) -> None:
    host.workspace.answers["queue"] = []
    texts, count = await call(http, f"GET {A}/prompts/list"), await call(http, f"GET {A}/prompts/queued")
    assert (texts.text, count.text) == ("null\n", "0\n")


@pytest.mark.parametrize("action", ["", "maybe", "ALLOW"])
async def test_a_permission_action_is_checked(http: httpx.AsyncClient, host: FakeHost, action: str) -> None:
    answer = await call(http, f"POST {W}/permissions/grant", {"permission": {"id": "p"}, "action": action})
    assert (error_of(answer), host.calls) == ((400, "invalid permission action"), [])


@pytest.mark.parametrize(
    ("kind", "key", "message"),
    [
        ("weird", "k", 'unsupported api key kind "weird"'),
        ("string", 5, "decode api key string: api_key is not a string"),
        ("oauth", "k", "decode api key oauth token: api_key is not a token with an access_token"),
    ],
)
async def test_a_provider_key_is_checked(http: httpx.AsyncClient, kind: str, key: Any, message: str) -> None:
    answer = await call(http, f"POST {W}/config/provider-key", {"kind": kind, "api_key": key})
    assert error_of(answer) == (400, message)


async def test_an_oauth_token_is_passed_on(http: httpx.AsyncClient, host: FakeHost) -> None:
    body = {"kind": "oauth", "api_key": {"access_token": "a", "expires_in": 5}}
    answer = await call(http, f"POST {W}/config/provider-key", body)
    assert (answer.status_code, len(host.calls)) == (200, 1)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (f"{W}/search", "q is required"),
        (f"{W}/search?q=a&limit=0", "limit: Expected `int` >= 1"),
        (f"{W}/search?q=a&limit=many", "limit: Expected `int`, got `str`"),
        (f"{W}/mcp/auth-url", "name is required"),
        (f"{W}/search?" + "a=b&" * 200, "the query string is malformed"),
    ],
)
async def test_query_parameters_are_checked(http: httpx.AsyncClient, target: str, message: str) -> None:
    assert error_of(await call(http, f"GET {target}")) == (400, message)


@pytest.mark.parametrize("seq", ["one", "1.5", "9" * 30, "9" * 5000, "%00", "%F0%9F%90%82"])
async def test_a_number_in_the_path_is_checked(http: httpx.AsyncClient, seq: str) -> None:
    answer = await call(http, f"DELETE {A}/prompts/{seq}")
    assert answer.status_code == 400
    assert answer.json()["message"].startswith("seq: ")


async def test_an_unknown_language_server_is_404(http: httpx.AsyncClient) -> None:
    answer = await call(http, f"GET {W}/lsps/nope/diagnostics")
    assert error_of(answer) == (404, "LSP client not found")


async def test_an_encoded_slash_belongs_to_its_segment(http: httpx.AsyncClient, host: FakeHost) -> None:
    """Ids of sub-agent sessions hold what models make up."""
    await call(http, f"GET {W}/sessions/m1$$call%2F1%20x")
    assert host.calls == [("session", "m1$$call/1 x")]


# Routing


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/no/such/route", "/v1/workspaces/", f"{W}/", f"{W}/sessions/s1/", "/v1/docs"]
)
async def test_an_unknown_path_is_plain_404(http: httpx.AsyncClient, path: str) -> None:
    answer = await call(http, f"GET {path}")
    assert (answer.status_code, answer.text) == (404, "404 page not found\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("request_line", "allow"),
    [("DELETE /v1/health", "GET, HEAD"), (f"PUT {W}", "DELETE, GET, HEAD"), (f"GET {A}/cancel", "POST")],
)
async def test_a_wrong_method_is_405_and_names_the_right_ones(
    http: httpx.AsyncClient, request_line: str, allow: str
) -> None:
    answer = await call(http, request_line)
    assert (answer.status_code, answer.headers["allow"]) == (405, allow)
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("path", "clean"),
    [
        ("//v1//workspaces", "/v1/workspaces"),
        ("/v1/x/../workspaces?a=b", "/v1/workspaces?a=b"),
        ("/v1/./workspaces//", "/v1/workspaces/"),
        ("//\\evil.example/x", "/%5Cevil.example/x"),
        ("/..//../evil", "/evil"),
    ],
)
async def test_a_path_is_cleaned_by_a_redirect(host: FakeHost, path: str, clean: str) -> None:
    """Never to another host, however the slashes lie."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    target, _, query = path.partition("?")
    await over_unix(app_of(host))(
        {
            "type": "http",
            "method": "GET",
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode(),
            "headers": [],
        },
        receive,
        send,
    )
    assert (sent[0]["status"], dict(sent[0]["headers"])[b"location"]) == (307, clean.encode())


async def test_head_answers_like_get_without_the_body(http: httpx.AsyncClient) -> None:
    head, got = await call(http, "HEAD /v1/workspaces"), await call(http, "GET /v1/workspaces")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers == got.headers


# Cursor


async def test_answers_below_a_workspace_say_what_they_hold(http: httpx.AsyncClient) -> None:
    """The cursor is the one from before the answer was made: nothing up to it can be missing."""
    got = await call(http, f"GET {W}/sessions")
    posted = await call(http, f"POST {W}/sessions", {})
    listed = await call(http, "GET /v1/workspaces")
    assert got.headers["bullpen-cursor"] == "e1-7"
    assert "bullpen-cursor" not in posted.headers
    assert "bullpen-cursor" not in listed.headers


# Errors


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.SessionNotFound("s"), 404),
        (errors.AgentNotReady(), 400),
        (errors.WorkspaceClosing(), 409),
        (errors.SessionBusy("s"), 409),
        (errors.UndoConflict("a"), 409),
        (errors.ChangesNotFound("none"), 404),
        (errors.ClientRetired("c"), 409),
        (errors.ShuttingDown(), 503),
        (errors.StoreFull(), 507),
        (errors.StoreBusy(), 503),
        (errors.StoreDamaged("/d", "why"), 500),
        (errors.ConfigError("no such key"), 400),
        (errors.ProviderError("overloaded"), 502),
        (errors.ToolFailed("no such file"), 400),
        (errors.BullpenError("other"), 500),
    ],
    ids=lambda value: getattr(value, "code", None),
)
async def test_an_error_has_one_status_and_carries_its_code(
    http: httpx.AsyncClient, host: FakeHost, error: errors.BullpenError, status: int
) -> None:
    host.workspace.answers["sessions"] = error
    answer = await call(http, f"GET {W}/sessions")
    assert (answer.status_code, answer.json()) == (status, {"message": error.message, "code": error.code})


def test_every_error_has_a_place_in_the_table() -> None:
    """Nothing of the tree falls through to a plain 500 by oversight."""
    meant = {errors.AddressInUse, errors.UnsafeSocket, errors.ServerUnreachable}
    """Raised before there is a server, or in a client."""
    assert set(errors.BullpenError.__subclasses__()) - meant <= STATUSES.keys()


@pytest.mark.parametrize("error", [errors.StoreBusy(), errors.StoreFailing("db", "EIO")])
async def test_a_store_that_takes_nothing_says_when_to_come_back(
    http: httpx.AsyncClient, host: FakeHost, error: errors.StoreError
) -> None:
    host.workspace.answers["sessions"] = error
    answer = await call(http, f"GET {W}/sessions")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.StoreBusy(), 500),
        (errors.StoreFailing("db", "EIO"), 500),
        (errors.StoreFull(), 507),
        (errors.ShuttingDown(), 503),
    ],
)
async def test_503_on_create_means_only_that_the_server_goes(
    http: httpx.AsyncClient, host: FakeHost, error: Exception, status: int
) -> None:
    """The reference client starts a replacement when it sees one."""
    host.failure = error
    answer = await call(http, "POST /v1/workspaces", {"path": "/x", "client_id": CLIENT})
    assert answer.status_code == status


async def test_a_crash_is_500_and_tells_nothing(
    http: httpx.AsyncClient, host: FakeHost, caplog: pytest.LogCaptureFixture
) -> None:
    host.workspace.answers["sessions"] = RuntimeError("secret inside")
    answer = await call(http, f"GET {W}/sessions")
    assert (answer.status_code, answer.json()) == (
        500,
        {"message": "internal server error", "code": "internal"},
    )
    assert "secret inside" in caplog.text


async def test_the_one_error_in_a_group_counts(http: httpx.AsyncClient, host: FakeHost) -> None:
    """Task groups wrap what their tasks raise."""
    host.workspace.answers["sessions"] = ExceptionGroup("", [ExceptionGroup("", [errors.ShuttingDown()])])
    assert error_of(await call(http, f"GET {W}/sessions")) == (503, "server is shutting down")


def test_a_lone_surrogate_does_not_break_the_answer() -> None:
    """Messages quote file names, and those need not be text."""
    assert reply_to(errors.BadRequest("bad \udc80")).status == 400


# Sizes


@pytest.mark.parametrize(("target", "limit"), [(f"{W}/sessions", 2**20), (f"{W}/agent", 2**26)])
async def test_a_long_body_is_413_by_its_announced_length(
    http: httpx.AsyncClient, host: FakeHost, target: str, limit: int
) -> None:
    for length in (str(limit + 1), "9" * 5000):
        answer = await http.post(target, content=b"{}", headers={"Content-Length": length})
        assert (error_of(answer), host.calls) == ((413, f"request body is larger than {limit} bytes"), [])


async def test_a_long_body_without_a_length_is_413_too(http: httpx.AsyncClient) -> None:
    """Reading stops as soon as the limit is passed."""
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while read < 100:
            read += 1
            yield b" " * 2**16

    answer = await http.post(f"{W}/sessions", content=endless())
    assert (answer.status_code, read) == (413, 17)


async def test_a_client_that_hangs_up_gets_nothing(host: FakeHost) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": f"{W}/sessions",
        "raw_path": b"",
        "query_string": b"",
        "headers": [],
    }
    await over_unix(app_of(host))(scope, receive, send)
    assert (sent, host.calls) == ([], [])


# Readiness


async def test_health_and_version_do_not_wait_for_the_store(http: httpx.AsyncClient, host: FakeHost) -> None:
    async def never() -> None:
        raise errors.StoreBusy

    host.on_ready = never
    statuses = [(await call(http, f"GET /v1/{p}")).status_code for p in ("health", "version", "workspaces")]
    assert statuses == [200, 200, 503]


async def test_the_store_is_waited_for_once(http: httpx.AsyncClient, host: FakeHost) -> None:
    waits = []

    async def ready() -> None:
        waits.append(1)

    host.on_ready = ready
    for _ in range(3):
        await call(http, "GET /v1/workspaces")
    assert waits == [1]


# Building


async def _nothing() -> None:
    """Do nothing."""


def test_an_endpoint_without_an_access_rule_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    room = ModuleType("room")
    vars(room)["unguarded"] = get("/v1/unguarded")(_nothing)
    monkeypatch.setattr(app_module, "ROOMS", (*app_module.ROOMS, room))
    with pytest.raises(ValueError, match="GET /v1/unguarded has no access rule"):
        app_of(FakeHost())


def test_two_endpoints_cannot_share_a_place() -> None:
    twin: Endpoint = get("/v1/health", access="open")(_nothing)
    with pytest.raises(ValueError, match="GET /v1/health stands where another endpoint is"):
        Router([*app_module.endpoints(), twin])


# The log


async def test_a_request_is_one_line_without_its_query(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "bullpen.request")
    await call(http, f"GET {W}/search?q=my+secret")
    await call(http, "GET /v1/no%0Asuch")
    lines = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "bullpen.request"]
    assert [(level, line.split(" ms ")[1], line.split()[:3]) for level, line in lines] == [
        ("DEBUG", "unix", ["GET", f"{W}/search", "200"]),
        ("INFO", "unix", ["GET", "/v1/no%0Asuch", "404"]),
    ]
