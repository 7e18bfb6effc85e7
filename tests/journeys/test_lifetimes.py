"""How long things live: workspaces with and without `outlive`, servers that nobody needs, and servers told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.server import Bullpen, Client, gate, open_gate, until
from tests.journeys.stream import parts_of, shape_of, text_of

HANG = {"when": "hang", "say": "working", "hang": True}


def gone(bullpen: Bullpen, client: Client) -> None:
    """Wait until the client's workspace is no longer open."""
    until(lambda: client.call("GET").status_code == 404, "the workspace to end")


# With outlive


def test_a_turn_goes_on_with_nobody_attached(bullpen: Bullpen, tmp_path: Path) -> None:
    """The last client leaves; the turn runs to its end, and then the workspace goes too."""
    pipe = tmp_path / "pipe"
    client = bullpen.attach(bullpen.project({"calls": [gate(pipe)]}, {"say": "finished alone"}), outlive=True)
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "work", "r1", permissions="allow")
    stream.next("message", "updated", role="assistant")
    client.leave()
    assert client.call("GET").status_code == 200
    open_gate(pipe)
    gone(bullpen, client)
    back = bullpen.attach(client.path)
    assert [text_of(m) for m in back.messages(session_id) if text_of(m)] == ["work", "finished alone"]


def test_a_queue_is_worked_off_with_nobody_attached(bullpen: Bullpen, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    script: list[dict[str, Any]] = [
        {"when": "first", "calls": [gate(pipe)]},
        {"when": "first", "say": "a1"},
        {"when": "next", "say": "a2"},
    ]
    client = bullpen.attach(bullpen.project(*script), outlive=True)
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "first", "r1", permissions="allow")
    stream.next("message", "updated", role="assistant")
    client.prompt(session_id, "next", "r2")
    client.leave()
    open_gate(pipe)
    gone(bullpen, client)
    back = bullpen.attach(client.path)
    assert [text_of(m) for m in back.messages(session_id) if text_of(m)] == ["first", "a1", "next", "a2"]
    assert back.queue(session_id) == []


def test_a_background_job_keeps_the_workspace(bullpen: Bullpen, tmp_path: Path) -> None:
    """The turn is over but what it started is not; when that ends, the workspace does."""
    pipe, done = tmp_path / "pipe", tmp_path / "done"
    call = gate(pipe)
    call["input"] |= {"command": f"cat {pipe}; touch {done}", "run_in_background": True}
    client = bullpen.attach(bullpen.project({"calls": [call]}, {"say": "started"}), outlive=True)
    stream, session_id = client.stream(), client.session()
    stream.completion(client.prompt(session_id, "go", permissions="allow"))
    client.leave()
    assert client.call("GET").status_code == 200
    open_gate(pipe)
    gone(bullpen, client)
    assert done.exists()


def test_an_open_ask_keeps_the_workspace(bullpen: Bullpen, tmp_path: Path) -> None:
    """Somebody who comes later still finds the question and can answer it."""
    target = tmp_path / "out.txt"
    call = {"id": "w", "name": "write", "input": {"file_path": str(target), "content": "yes"}}
    client = bullpen.attach(bullpen.project({"calls": [call]}, {"say": "done"}), outlive=True)
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "write", "r1")
    stream.next("permission_request")
    client.leave()
    other = bullpen.attach(client.path)
    stream = other.stream()
    assert other.grant(stream.next("permission_request")) is True
    assert stream.completion("r1")["text"] == "done"
    assert target.read_text() == "yes"


def test_a_join_can_ask_for_outlive(bullpen: Bullpen) -> None:
    """The creator did not want it, a later client does: it holds for the workspace."""
    creator = bullpen.attach(bullpen.project(HANG))
    joined = bullpen.attach(creator.path, outlive=True)
    stream, session_id = creator.stream(), creator.session()
    creator.prompt(session_id, "hang", "r1")
    stream.speaking(session_id, "working")
    creator.leave()
    joined.leave()
    assert bullpen.attach(creator.path).is_busy(session_id)


def test_outlive_without_work_ends_at_once(bullpen: Bullpen) -> None:
    client = bullpen.attach(bullpen.project({"say": "hi"}), outlive=True)
    stream = client.stream()
    stream.completion(client.prompt(client.session(), "hi"))
    client.leave()
    gone(bullpen, client)


# Without


def test_the_last_goodbye_ends_the_workspace_and_its_turn(bullpen: Bullpen) -> None:
    """As on the reference: the active turn and the queue are cancelled, the streams end after the last events."""
    client = bullpen.attach(bullpen.project(HANG))
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "hang", "r1")
    stream.speaking(session_id, "working")
    client.prompt(session_id, "next", "r2")
    client.leave()
    assert client.call("GET").status_code == 404
    stream.wait_end()
    ends = [(done["run_id"], done["cancelled"]) for done in stream.seen("run_complete")]
    assert sorted(ends) == [("r1", True), ("r2", True)]
    back = bullpen.attach(client.path)
    assert shape_of(back.messages(session_id))[:2] == [("user", "stop"), ("assistant", "canceled")]
    assert not back.is_busy(session_id)


def test_a_client_that_only_vanishes_has_time_to_come_back(bullpen: Bullpen) -> None:
    """A cut stream leaves a hold; the turn goes on, and the same client attaches again."""
    client = bullpen.attach(bullpen.project(HANG))
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "hang", "r1")
    stream.speaking(session_id, "working")
    stream.cut()
    again = client.stream()
    client.cancel(session_id)
    assert again.completion("r1")["cancelled"]


def test_a_hold_runs_out(home: Bullpen) -> None:
    """The grace is over and nobody came back: the workspace ends with its turn."""
    home.start(BULLPEN_SERVER_DETACH_GRACE="1")
    client = home.attach(home.project(HANG))
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "hang", "r1")
    stream.speaking(session_id, "working")
    stream.cut()
    gone(home, client)
    assert shape_of(home.attach(client.path).messages(session_id))[-1] == ("assistant", "canceled")


def test_another_client_keeps_the_workspace(bullpen: Bullpen) -> None:
    one = bullpen.attach(bullpen.project(HANG))
    two = bullpen.attach(one.path)
    stream, session_id = two.stream(), one.session()
    one.prompt(session_id, "hang", "r1")
    stream.speaking(session_id, "working")
    one.leave()
    assert two.is_busy(session_id)


def test_a_data_directory_is_left_and_taken_again(bullpen: Bullpen, tmp_path: Path) -> None:
    """Its last workspace closes while another one opens: nobody is told that somebody else has it."""
    data_dir = str(tmp_path / "own")
    statuses: list[int] = []

    def come_and_go(path: Path) -> None:
        with bullpen.connect() as http:
            for _ in range(15):
                client_id = str(uuid.uuid4())
                body = {"path": str(path), "data_dir": data_dir, "client_id": client_id}
                statuses.append(http.post("/workspaces", json=body).status_code)
                http.delete(f"/clients/{client_id}")

    threads = [threading.Thread(target=come_and_go, args=(bullpen.project(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200}


# The server


def test_an_idle_server_leaves(home: Bullpen) -> None:
    """With nothing open it goes, and takes its socket along."""
    home.start(BULLPEN_SERVER_IDLE_TIMEOUT="2")
    client = home.attach(home.project({"say": "hi"}))
    client.leave()
    assert home.exited() == 0
    assert not Path(home.socket).exists()


def test_a_server_with_work_does_not_leave(home: Bullpen) -> None:
    """An outliving workspace counts as open until its work is done."""
    home.start(BULLPEN_SERVER_IDLE_TIMEOUT="2")
    pipe = home.home / "pipe"
    client = home.attach(home.project({"calls": [gate(pipe)]}, {"say": "done"}), outlive=True)
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "go", permissions="allow")
    stream.next("message", "updated", role="assistant")
    client.leave()
    with pytest.raises(subprocess.TimeoutExpired):
        home.process.wait(3)
    open_gate(pipe)
    assert home.exited() == 0
    home.start(BULLPEN_SERVER_IDLE_TIMEOUT="60")
    assert text_of(home.attach(client.path).messages(session_id)[-1]) == "done"


def test_control_stops_only_an_idle_server(fresh: Bullpen) -> None:
    client = fresh.attach(fresh.project({"say": "hi"}))
    refused = fresh.call("POST", "/control", {"command": "shutdown"})
    assert (refused.status_code, refused.json()["message"]) == (409, "server is hosting live workspaces")
    client.leave()
    assert fresh.call("POST", "/control", {"command": "shutdown"}).status_code == 200
    assert fresh.exited() == 0


# Signals


def test_sigterm_cancels_what_runs_and_keeps_what_waits(bullpen: Bullpen) -> None:
    """The active turn is stored and told as cancelled; accepted prompts run with the next server."""
    client = bullpen.attach(bullpen.project(HANG, {"when": "next", "say": "after all"}))
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "hang", "r1")
    stream.speaking(session_id, "working")
    client.prompt(session_id, "next", "r2")
    assert bullpen.terminate() == 0
    stream.wait_end()
    assert [(d["run_id"], d["cancelled"]) for d in stream.seen("run_complete")] == [("r1", True)]
    bullpen.restart()
    back = bullpen.attach(client.path)
    again = back.stream(after=stream.last_id)
    assert again.completion("r2")["text"] == "after all"
    assert [text_of(m) for m in back.messages(session_id)] == ["hang", "working", "next", "after all"]


def test_sigterm_also_ends_an_outliving_workspace(bullpen: Bullpen) -> None:
    client = bullpen.attach(bullpen.project(HANG), outlive=True)
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "hang", "r1")
    stream.speaking(session_id, "working")
    assert bullpen.terminate() == 0
    bullpen.restart()
    assert shape_of(bullpen.attach(client.path).messages(session_id))[-1] == ("assistant", "canceled")


def test_sigterm_ends_the_commands_too(bullpen: Bullpen, tmp_path: Path) -> None:
    """A tool that runs gets its result, and its process does not stay behind."""
    pipe, pid_file = tmp_path / "pipe", tmp_path / "pid"
    call = gate(pipe)
    call["input"]["command"] = f"echo $$ > {pid_file}; cat {pipe}"
    client = bullpen.attach(bullpen.project({"calls": [call]}))
    session_id = client.session()
    client.prompt(session_id, "go", permissions="allow")
    pid = until(lambda: pid_file.exists() and pid_file.read_text().strip(), "the command")
    assert bullpen.terminate() == 0
    assert not Path(f"/proc/{pid}").exists()
    bullpen.restart()
    messages = bullpen.attach(client.path).messages(session_id)
    assert [r["content"] for m in messages for r in parts_of(m, "tool_result")] == ["context canceled"]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_it_at_once(bullpen: Bullpen, signum: signal.Signals, tmp_path: Path) -> None:
    """A command that will not go delays the first; nobody has to wait for that twice."""
    ready = tmp_path / "ready"
    stubborn = f"trap '' TERM; touch {ready}; while :; do sleep 0.1; done"
    call = {"id": "b", "name": "bash", "input": {"command": stubborn, "description": "stay"}}
    client = bullpen.attach(bullpen.project({"calls": [call]}))
    client.prompt(client.session(), "go", permissions="allow")
    until(ready.exists, "the command")
    os.kill(bullpen.process.pid, signum)
    until(lambda: not _listens(bullpen), "the server to begin to stop")
    os.kill(bullpen.process.pid, signum)
    assert bullpen.exited() == 128 + signum


def _listens(bullpen: Bullpen) -> bool:
    """Whether a new workspace could be opened."""
    try:
        body = {"path": str(bullpen.home / "x"), "client_id": "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}
        return bullpen.call("POST", "/workspaces", body).status_code == 200
    except OSError:
        return False
