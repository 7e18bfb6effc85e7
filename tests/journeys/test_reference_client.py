"""An unmodified reference client on the unix socket: it attaches, works, and survives every end of its stream."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.journeys.reference import (
    Config,
    Message,
    Queue,
    ReferenceClient,
    SelectedModel,
    Session,
    Workspace,
)
from tests.journeys.server import Bullpen
from tests.journeys.stream import text_of

SCRIPT: tuple[dict[str, Any], ...] = (
    {"when": "hang", "say": "thinking about it", "hang": True},
    {"when": "break", "fail": {"message": "no credit", "status": 402}},
    {"when": "write", "think": "let me see", "calls": [{"id": "call_w", "name": "write", "input": {}}]},
    {"when": "write", "say": "done"},
    {"when": "slow", "say": " ".join(f"word{n}" for n in range(400)), "pace_ms": 1},
    {"say": "first answer"},
    {"say": "second answer"},
)

Start = Callable[..., ReferenceClient]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts clients: in a project of their own, or at a path."""
    clients: list[ReferenceClient] = []

    def begin(server: Bullpen, path: Path | None = None) -> ReferenceClient:
        clients.append(ReferenceClient(server, path or project(server)))
        return clients[-1]

    yield begin
    for client in clients:
        client.close()


@pytest.fixture
def client(shared: Bullpen, start: Start) -> ReferenceClient:
    """A terminal that is attached to a fresh workspace."""
    client = start(shared)
    client.attach_terminal()
    return client


def project(server: Bullpen) -> Path:
    path = server.project()
    script = [dict(step) for step in SCRIPT]
    written = {"file_path": str(path / "n.txt"), "content": "one\n"}
    script[2]["calls"] = [{"id": "call_w", "name": "write", "input": written}]
    config = msgspec.json.decode((path / "bullpen.json").read_bytes())
    config["providers"]["script"]["provider_options"]["script"] = script
    (path / "bullpen.json").write_bytes(msgspec.json.encode(config))
    return path


def texts(messages: list[Message]) -> list[str]:
    return [text_of(msgspec.to_builtins(message)) for message in messages]


# Attaching


def test_another_version_does_not_replace_the_server(fresh: Bullpen, start: Start) -> None:
    """With a 200 the client would delete our socket and start its own server there; idle or not, it gets 409."""
    client = start(fresh)
    assert fresh.workspaces() == []
    assert client.find_server() == 409
    assert client.send("POST", "/control", {"command": "shutdown"}).status_code == 409
    client.create()
    assert client.find_server() == 409
    assert fresh.process.poll() is None


def test_the_terminal_attaches_and_leaves(client: ReferenceClient) -> None:
    """Every call of the sequence succeeds and can be decoded; the program leaves by retiring."""
    config = client.workspace.config
    assert config.models["large"].model == "player"
    assert [model.name for model in config.providers["script"].models] == ["Player"]
    assert client.events() == []
    client.leave()
    assert client.send("GET", client.w()).status_code == 404


def test_the_stream_ends_only_with_the_connection(client: ReferenceClient) -> None:
    """A chunked body that is cut makes the client try for ever without success."""
    assert client.stream.headers["connection"] == "close"
    assert not {"transfer-encoding", "content-length"} & set(client.stream.headers)
    assert client.stream.headers["content-type"] == "text/event-stream"


def test_run_prints_the_answer(shared: Bullpen, start: Start) -> None:
    """`run`: not interactive, waits for the agent, prints the text of its own completion."""
    client = start(shared)
    client.find_server()
    client.create(interactive=False)
    client.agent()
    client.tell("POST", client.w("/agent/update"))
    session = client.call("POST", client.w("/sessions"), Session, {"title": "non-interactive"})
    client.subscribe()
    run_id = str(uuid.uuid4())
    client.prompt(session.id, "hello", run_id)
    done = client.stream.completion(run_id)
    assert (done["text"], "error" in done, "cancelled" in done) == ("first answer", False, False)
    assert client.events()
    client.leave()


def test_run_goes_on_in_an_old_session_with_a_chosen_model(shared: Bullpen, start: Start) -> None:
    """`run -C -m`: finds the newest session, and sets the models before."""
    first = start(shared)
    first.attach_terminal()
    session_id = first.first_prompt("hello")
    first.stream.next("run_complete", session_id=session_id)
    client = start(shared, first.path)
    client.create(interactive=False)
    client.call("GET", client.w("/config"), Config)
    chosen = {"scope": 1, "model_type": "large", "model": {"model": "player", "provider": "script"}}
    client.tell("POST", client.w("/config/model"), chosen)
    client.call("GET", client.w("/agent/default-small-model?provider_id=script"), SelectedModel)
    client.tell("POST", client.w("/agent/update"))
    client.agent()
    newest = client.call("GET", client.w("/sessions"), list[Session])[0].id
    assert newest == session_id
    assert texts(client.call("GET", client.w(f"/sessions/{newest}/messages"), list[Message])) == [
        "hello",
        "first answer",
    ]
    client.subscribe()
    client.prompt(newest, "and now", "run-2")
    assert client.stream.completion("run-2")["text"] == "second answer"


def test_run_fails_with_the_error_of_its_turn(client: ReferenceClient) -> None:
    """The agent's event and the completion both name the run, so either ends the program with status 1."""
    session_id = client.call("POST", client.w("/sessions"), Session, {"title": "non-interactive"}).id
    client.prompt(session_id, "break", "run-1")
    done = client.stream.completion("run-1")
    assert (done["error"], "cancelled" in done) == ("no credit", False)
    assert client.stream.next("agent_event", run_id="run-1")["error"] == "no credit"
    client.events()


# Working


def test_prompts_one_after_another(client: ReferenceClient) -> None:
    """The first prompt makes and shows a session, later ones only send."""
    session_id = client.first_prompt("hello")
    client.stream.next("run_complete", session_id=session_id)
    client.look(session_id)
    mark = client.stream.mark()
    client.later_prompt(session_id, "and now")
    client.stream.next("run_complete", session_id=session_id, since=mark)
    assert texts(client.open_session(session_id)) == ["hello", "first answer", "and now", "second answer"]
    assert ("agent_event", "created") in {(kind, action) for kind, action, _ in client.events()}


def test_growing_text_comes_as_whole_messages(client: ReferenceClient) -> None:
    """It knows no deltas: each update is the message so far, on one line."""
    session_id = client.first_prompt("slow")
    client.stream.next("run_complete", session_id=session_id)
    grown = [
        text_of(msgspec.to_builtins(message))
        for kind, _, message in client.events()
        if kind == "message" and isinstance(message, Message) and message.role == "assistant"
    ]
    assert len(grown) > 3
    assert all(after.startswith(before) for before, after in itertools.pairwise(grown))
    assert "message_delta" not in {event.kind for event in client.stream.events}


def test_a_permission_is_asked_and_granted(client: ReferenceClient) -> None:
    """The dialog sends the request back as it came; then everything happens in the order of the sample."""
    session_id = client.first_prompt("write it")
    request = client.stream.next("permission_request")
    answer = client.call(
        "POST", client.w("/permissions/grant"), dict, {"permission": request, "action": "allow"}
    )
    assert answer == {"resolved": True}
    client.stream.next("run_complete", session_id=session_id)
    assert request | {"id": "P1"} == {
        "id": "P1",
        "session_id": session_id,
        # Ours alone; its client drops what it does not know.
        "why": "it changes `n.txt`",
        "rule": "the tool write:write on `*`",
        "tool_call_id": "call_w",
        "tool_name": "write",
        "description": f"Create file {client.path}/n.txt",
        "action": "write",
        "params": {"file_path": f"{client.path}/n.txt", "new_content": "one\n"},
        "path": str(client.path),
    }
    client.events()
    seen = [event for event in client.stream.events if event.kind != "session"]
    told = [
        (event.data["granted"], event.data["denied"])
        for event in seen
        if event.kind == "permission_notification"
    ]
    assert told == [(False, False), (True, False)]
    assert [(e.data["version"], e.data["content"]) for e in seen if e.kind == "file"] == [
        (0, ""),
        (1, "one\n"),
    ]
    created = [e.data["role"] for e in seen if e.kind == "message" and e.action == "created"]
    assert created == ["user", "assistant", "tool", "assistant"]
    assert [event.kind for event in seen][-3:] == ["message", "agent_event", "run_complete"]
    assert (client.path / "n.txt").read_text() == "one\n"


def test_escape_clears_the_queue_and_then_cancels(client: ReferenceClient) -> None:
    """While prompts wait, Escape drops them; after that it ends the turn."""
    session_id = client.first_prompt("hang")
    client.stream.speaking(session_id, "thinking about it")
    client.later_prompt(session_id, "never mind")
    queue = client.w(f"/agent/sessions/{session_id}/prompts")
    assert client.call("GET", queue + "/list", list[str]) == ["never mind"]
    client.tell("POST", queue + "/clear")
    assert client.call("GET", queue + "/list", Queue) is None
    client.tell("POST", client.w(f"/agent/sessions/{session_id}/cancel"))
    done = client.stream.next("run_complete", error="context canceled")
    assert (done["cancelled"], done["text"]) == (True, "thinking about it")
    assert texts(client.open_session(session_id)) == ["hang", "thinking about it"]
    client.events()


def test_sessions_are_listed_renamed_and_deleted(client: ReferenceClient) -> None:
    """A rename sends the whole cached session back; its counters do not come from there."""
    session_id = client.first_prompt("hello")
    client.stream.next("run_complete", session_id=session_id)
    client.stream.wait(lambda e: e.kind == "session" and e.data["title"] != "New Session", "a title")
    before = client.call("GET", client.w(f"/sessions/{session_id}"), Session)
    cached = msgspec.to_builtins(before) | {"title": "Renamed", "cost": 99.0, "prompt_tokens": 0}
    after = client.call("PUT", client.w(f"/sessions/{session_id}"), Session, cached)
    assert after == msgspec.structs.replace(before, title="Renamed", updated_at=after.updated_at)
    assert [s.title for s in client.call("GET", client.w("/sessions"), list[Session])] == ["Renamed"]
    client.tell("DELETE", client.w(f"/sessions/{session_id}"))
    client.stream.next("session", "deleted", id=session_id)
    assert client.call("GET", client.w("/sessions"), list[Session]) == []
    client.events()


def test_a_changed_config_is_fetched(client: ReferenceClient) -> None:
    """`config_changed` names the workspace; the client then reads all of it."""
    client.tell("POST", client.w("/config/compact"), {"scope": 1, "enabled": True})
    assert client.stream.next("config_changed")["workspace_id"] == client.workspace.id
    assert client.call("GET", client.w(), Workspace).config.options.tui == {"compact_mode": True}
    client.events()


def test_asking_is_switched_off_and_everybody_hears_of_it(client: ReferenceClient, shared: Bullpen) -> None:
    """Those who know the event are told who did it, once; the client skips it, and reads the workspace as it always did."""
    ana = shared.attach(client.path)
    stream = ana.stream()
    for skip in (True, True, False):
        ana.ok("POST", "/permissions/skip", {"skip": skip}, headers={"Bullpen-Author": "ana"})
    stream.next("permissions_skip", skip=False)
    told = [{"skip": True, "changed_by": "ana"}, {"skip": False, "changed_by": "ana"}]
    assert stream.seen("permissions_skip") == told
    client.tell("POST", client.w("/permissions/skip"), {"skip": True})
    stream.next("permissions_skip", skip=True, changed_by="")
    client.stream.wait(lambda _: len(client.stream.seen("config_changed")) == 4, "to be told to look")
    assert client.call("GET", client.w(), Workspace).yolo
    assert "permissions_skip" not in {kind for kind, *_ in client.events()}


def test_two_terminals_see_the_same(client: ReferenceClient, shared: Bullpen, start: Start) -> None:
    """A second program at the same path joins the first; its init leaves a running turn alone."""
    session_id = client.first_prompt("hang")
    client.stream.speaking(session_id, "thinking")
    other = start(shared, client.path)
    other.attach_terminal()
    assert other.workspace.id == client.workspace.id
    assert other.agent().is_busy
    other.tell("POST", other.w(f"/agent/sessions/{session_id}/cancel"))
    for each in (client, other):
        assert each.stream.next("run_complete", session_id=session_id)["cancelled"]


# Losing the stream


def test_a_lost_connection_is_opened_again(client: ReferenceClient) -> None:
    """Within the detach hold the workspace is still there, and so is everything in it."""
    session_id = client.first_prompt("hello")
    client.stream.next("run_complete", session_id=session_id)
    client.stream.cut()
    client.resubscribe()
    assert texts(client.open_session(session_id)) == ["hello", "first answer"]


def test_a_stopped_server_is_found_again(bullpen: Bullpen, start: Start) -> None:
    """SIGTERM ends the stream cleanly; the next server answers 404, and the workspace is made from the cache."""
    client = start(bullpen)
    client.attach_terminal()
    old_id = client.workspace.id
    session_id = client.first_prompt("hang")
    client.stream.speaking(session_id, "thinking about it")
    assert bullpen.terminate() == 0
    assert client.stream.next("run_complete", session_id=session_id)["cancelled"]
    bullpen.restart()
    client.resubscribe(expect=404)
    client.create_again()
    assert client.workspace.id == old_id
    assert texts(client.open_session(session_id)) == ["hang", "thinking about it"]


def test_a_killed_server_is_found_again(bullpen: Bullpen, start: Start) -> None:
    """`kill -9` in the middle of a turn: the stream ends as a clean one, and nothing that was shown is missing."""
    client = start(bullpen)
    client.attach_terminal()
    session_id = client.first_prompt("hello")
    client.stream.next("run_complete", session_id=session_id)
    client.later_prompt(session_id, "hang")
    client.stream.speaking(session_id, "thinking about it")
    bullpen.kill()
    client.stream.wait_end()
    shown = {m.id: m for kind, _, m in client.events() if kind == "message" and isinstance(m, Message)}
    bullpen.restart()
    client.resubscribe(expect=404)
    client.create_again()
    messages = client.open_session(session_id)
    assert texts(messages) == ["hello", "first answer", "hang", "thinking about it"]
    assert [message.id for message in messages] == list(shown)
    client.later_prompt(session_id, "go on")
    assert client.stream.next("run_complete", session_id=session_id)["text"] == "second answer"


def test_a_workspace_that_ended_is_made_again(home: Bullpen, start: Start) -> None:
    """Without a detach hold a lost connection ends the workspace; the client comes back all the same."""
    home.start(BULLPEN_SERVER_DETACH_GRACE="0")
    client = start(home)
    client.attach_terminal()
    session_id = client.first_prompt("hello")
    client.stream.next("run_complete", session_id=session_id)
    client.stream.cut()
    while client.send("GET", client.w()).status_code == 200:
        pass
    client.resubscribe(expect=404)
    client.create_again()
    assert texts(client.open_session(session_id)) == ["hello", "first answer"]
