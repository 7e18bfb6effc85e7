"""Request bodies as the reference's client sends them, and the answers that are not nouns."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.schema.golden import both_ways, names

from bullpen.schema import api
from bullpen.schema.agent import SelectedModel
from bullpen.schema.wire import Wire, decode_body

REQUESTS: list[tuple[str, Any]] = [
    ('{"command":"shutdown_if_idle"}', api.Control(command="shutdown_if_idle")),
    (
        (
            '{"id":"","path":"/x","version":"v1","client_id":"c","env":["A=b"],"config":null,"yolo":true,'
            '"channels":["one"],"skills":null,"data_dir":"/d","debug":true}'
        ),
        api.NewWorkspace(
            path="/x",
            client_id="c",
            data_dir="/d",
            debug=True,
            yolo=True,
            channels=("one",),
            env=("A=b",),
            version="v1",
        ),
    ),
    (
        '{"path":"/x","client_id":"c","outlive":true,"client_name":"ana"}',
        api.NewWorkspace(path="/x", client_id="c", outlive=True, client_name="ana"),
    ),
    ('{"session_id":""}', api.CurrentSession()),
    (
        (
            '{"id":"s","parent_session_id":"","title":"t","message_count":2,"prompt_tokens":1,"completion_tokens":1,'
            '"summary_message_id":"m","cost":0.5,"todos":null,"created_at":1,"updated_at":2,"is_busy":true}'
        ),
        api.SessionChange(title="t"),
    ),
    (
        '{"session_id":"s","prompt":"p","run_id":"r","attachments":null}',
        api.NewPrompt(session_id="s", prompt="p", run_id="r"),
    ),
    (
        '{"session_id":"s","prompt":"p","permissions":"deny","interactive":false}',
        api.NewPrompt(session_id="s", prompt="p", permissions="deny", interactive=False),
    ),
    ('{"interactive":true}', api.AgentInit(interactive=True)),
    ('{"prompt":"new","index":0}', api.QueueEdit(prompt="new", index=0)),
    (
        (
            '{"permission":{"id":"p","session_id":"s","tool_call_id":"c","tool_name":"bash","description":"d",'
            '"action":"execute","params":{"command":"ls"},"path":"/x"},"action":"allow"}'
        ),
        api.PermissionAnswer(
            permission=api.GrantedPermission(id="p", tool_call_id="c", params={"command": "ls"}),
            action="allow",
        ),
    ),
    (
        '{"scope":1,"model_type":"large","model":{"model":"m","provider":"p","think":true}}',
        api.ConfigModel(
            scope=1, model_type="large", model=SelectedModel(model="m", provider="p", think=True)
        ),
    ),
    (
        '{"scope":0,"provider_id":"p","kind":"oauth","api_key":{"access_token":"t","expires_in":5}}',
        api.ProviderKey(provider_id="p", kind="oauth", api_key={"access_token": "t", "expires_in": 5}),
    ),
    (
        '{"client_id":"docs","prompt_id":"p","args":null}',
        api.McpGetPrompt(client_id="docs", prompt_id="p"),
    ),
]


@pytest.mark.parametrize(("text", "body"), REQUESTS, ids=names([body for _, body in REQUESTS]))
def test_a_request_is_understood(text: str, body: Wire) -> None:
    assert decode_body(text.encode(), type(body)) == body


BODIES = [
    kind
    for kind in vars(api).values()
    if isinstance(kind, type) and issubclass(kind, Wire) and kind.__module__ == api.__name__
]


ANSWERS: list[tuple[Wire, str]] = [
    (
        api.SkillContent(
            content=b"Use it.",
            result=api.SkillOrigin(name="k", description="d", source="user", builtin=False),
        ),
        '{"content":"VXNlIGl0Lg==","result":{"name":"k","description":"d","source":"user","builtin":false}}',
    ),
    (api.NeedsInit(needs_init=False), '{"needs_init":false}'),
    (api.PromptText(prompt=""), '{"prompt":""}'),
    (api.PromptAccepted(run_id="r1"), '{"run_id":"r1"}'),
    (api.Dropped(dropped=()), '{"dropped":[]}'),
    (api.ShellDone(output="", exit_code=0), '{"output":"","exit_code":0}'),
    (api.FileHit(path="src/"), '{"path":"src/"}'),
    (
        api.FileContent(file_path="a", file_name="a", mime_type="text/plain", content=b"a"),
        '{"file_path":"a","file_name":"a","mime_type":"text/plain","content":"YQ=="}',
    ),
    (api.Resolved(resolved=False), '{"resolved":false}'),
    (api.Skip(), '{"skip":false}'),
    (api.Woken(woken=True), '{"woken":true}'),
    (api.RememberedModels(recent={}, favorites=()), '{"recent":{},"favorites":[]}'),
    (api.ImportedToken(), '{"token":null,"success":false}'),
    (
        api.TrustEffect(kind="runs", setting="mcp.x", detail="npx x", file="/p/bullpen.json", line=3),
        '{"kind":"runs","setting":"mcp.x","detail":"npx x","file":"/p/bullpen.json","line":3}',
    ),
    (
        api.Trust(trusted=False),
        '{"trusted":false,"by_server":false,"fingerprint":"","settings":[],"effects":[]}',
    ),
    (
        api.KeyChecked(verdict="refused", message="OpenAI refused the key (401)"),
        '{"verdict":"refused","message":"OpenAI refused the key (401)"}',
    ),
    (
        api.LoginCode(user_code="A-1", verification_uri="https://github.com/login/device", expires_in=900.0),
        '{"user_code":"A-1","verification_uri":"https://github.com/login/device","expires_in":900.0}',
    ),
    (api.LoginState(state="done", message="logged in"), '{"state":"done","message":"logged in"}'),
    (api.ErrorBody(message="workspace not found"), '{"message":"workspace not found"}'),
    (api.ErrorBody(message="m", code="c"), '{"message":"m","code":"c"}'),
]


@pytest.mark.parametrize(("answer", "text"), ANSWERS, ids=names([answer for answer, _ in ANSWERS]))
def test_an_answer_both_ways(answer: Wire, text: str) -> None:
    both_ways(answer, text)


def test_a_request_may_leave_out_anything() -> None:
    """The wire takes a missing key for a zero value; only answers have fields that must be there."""
    answers = {type(answer) for answer, _ in ANSWERS} | {api.SkillOrigin}
    bound = [kind for kind in BODIES if any(field.required for field in msgspec.structs.fields(kind))]
    assert set(bound) <= answers
