"""`kill -9` at every step of a turn: what was acknowledged or shown is there afterwards, and nothing happens twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.server import Bullpen, Client, gate, until
from tests.journeys.stream import Seen, Stream, parts_of, reason_of, shape_of, text_of

WORDS = " ".join(f"word{n}" for n in range(2_000))

STREAMING = {"say": WORDS, "pace_ms": 2}


def crash(client: Client) -> Client:
    """Kill the server, start another, and come back as a new client of the same workspace."""
    client.server.kill()
    client.server.restart()
    return client.server.attach(client.path)


def replay(client: Client, after: str) -> Stream:
    """A stream from an id on, read up to where the log ended when it began."""
    stream = client.stream(after=after)
    head = stream.headers["bullpen-cursor"]
    if head != after.partition(".")[0]:
        stream.wait(lambda event: event.id == head, f"the replay up to {head}")
    return stream


def check_no_gap(before: Stream, after: Stream, client: Client) -> None:
    """Live before the crash and replayed after it: together the whole log, each event once, in order."""
    joined = [event for stream in (before, after) for event in stream.durable()]
    assert max(Counter(event.id for event in joined).values()) == 1
    assert [event.seq for event in joined] == sorted(event.seq for event in joined)
    epoch = joined[0].id.rpartition("-")[0]
    start = joined[0].seq - 1
    # A replay leaves out what a later state of the same object has replaced; everything else must be there.
    whole = replay(client, f"{epoch}-{start}").durable()
    known = {event.id for event in joined}
    missing = [str(event) for event in whole if event.id not in known]
    assert missing == []
    assert whole[-1].id == joined[-1].id


def check_ended(client: Client, session_id: str) -> list[dict[str, Any]]:
    """Nothing is left open: every message has its end, every call its one result."""
    assert not client.is_busy(session_id)
    messages = client.messages(session_id)
    assert all(reason_of(message) for message in messages), shape_of(messages)
    calls = [call["id"] for message in messages for call in parts_of(message, "tool_call")]
    results = [result["tool_call_id"] for message in messages for result in parts_of(message, "tool_result")]
    assert sorted(results) == sorted(calls)
    return messages


def test_killed_while_streaming(bullpen: Bullpen) -> None:
    """All text that was shown is kept; the answer ends with an error, and so does the run, once."""
    client = bullpen.attach(bullpen.project(STREAMING))
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "talk", "r1")
    stream.speaking(session_id, "word60")
    client = crash(client)
    stream.wait_end()
    shown = [text_of(e.data) for e in stream.events if e.kind == "message" and e.data["role"] == "assistant"][
        -1
    ]
    user, answer = check_ended(client, session_id)
    assert text_of(user) == "talk"
    assert text_of(answer).startswith(shown)
    assert WORDS.startswith(text_of(answer))
    assert reason_of(answer) == "error"
    again = replay(client, stream.last_id)
    done = again.seen("run_complete", run_id="r1")
    assert [(d["message_id"], d["text"], "cancelled" in d) for d in done] == [
        (answer["id"], text_of(answer), False)
    ]
    assert "server stopped" in done[0]["error"]
    check_no_gap(stream, again, client)


def test_killed_while_streaming_deltas(bullpen: Bullpen) -> None:
    """The pieces a delta client has put together are a beginning of what is stored."""
    client = bullpen.attach(bullpen.project(STREAMING))
    stream, session_id = client.stream(query="&deltas=1"), client.session()
    client.prompt(session_id, "talk")
    stream.wait(lambda e: e.kind == "message_delta" and e.data["offset"] > 300, "some text")
    client = crash(client)
    stream.wait_end()
    grown = "".join(delta["text"] for delta in stream.seen("message_delta"))
    assert text_of(check_ended(client, session_id)[1]).startswith(grown)


def test_killed_while_a_permission_is_open(bullpen: Bullpen, tmp_path: Path) -> None:
    """The ask dies with a notice, once; a late answer is told so, and nobody is asked again."""
    target = tmp_path / "written.txt"
    call = {"id": "c1", "name": "write", "input": {"file_path": str(target), "content": "x"}}
    client = bullpen.attach(bullpen.project({"calls": [call]}, {"say": "never"}))
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "write", "r1")
    request = stream.next("permission_request")
    client = crash(client)
    again = replay(client, stream.last_id)
    notices = again.seen("permission_notification", tool_call_id="c1")
    assert [(n["granted"], n["denied"]) for n in notices] == [(False, True)]
    assert len(again.seen("run_complete", run_id="r1")) == 1
    assert again.seen("permission_request") == []
    assert client.grant(request) is False
    assert not target.exists()
    result = parts_of(check_ended(client, session_id)[2], "tool_result")[0]
    assert (result["is_error"], "before this call had a result" in result["content"]) == (True, True)
    check_no_gap(stream, again, client)


def test_killed_while_a_question_is_open(bullpen: Bullpen) -> None:
    questions = [{"question": "Which?", "type": "free_text", "description": "to know"}]
    client = bullpen.attach(
        bullpen.project({"calls": [{"id": "q1", "name": "question", "input": {"questions": questions}}]})
    )
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "ask me", "r1")
    batch = stream.next("question_batch_request")
    client = crash(client)
    again = replay(client, stream.last_id)
    assert again.seen("question_batch_notification", batch_id=batch["id"])
    assert again.seen("question_batch_request") == []
    assert len(again.seen("run_complete", run_id="r1")) == 1
    check_ended(client, session_id)


def test_killed_during_a_tool(bullpen: Bullpen, tmp_path: Path) -> None:
    """The command is dead, was not run again, and the model will read that its outcome is unknown."""
    ran, pipe = tmp_path / "ran", tmp_path / "pipe"
    call = gate(pipe)
    call["input"]["command"] = f"echo $$ >> {ran}; cat {pipe}"
    client = bullpen.attach(bullpen.project({"calls": [call]}, {"say": "never"}))
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "run it", "r1", permissions="allow")
    pid = until(lambda: ran.exists() and ran.read_text().strip(), "the command to run")
    client = crash(client)
    until(lambda: not Path(f"/proc/{pid}").exists(), "the command to be ended")
    again = replay(client, stream.last_id)
    assert len(again.seen("run_complete", run_id="r1")) == 1
    result = parts_of(check_ended(client, session_id)[2], "tool_result")[0]
    assert (result["is_error"], "outcome is unknown" in result["content"]) == (True, True)
    assert ran.read_text().split() == [pid]
    check_no_gap(stream, again, client)


def test_killed_right_after_accepting(bullpen: Bullpen) -> None:
    """Whatever the server had got to: the prompt is there once and ends once."""
    client = bullpen.attach(bullpen.project({"say": "one"}, {"say": "two"}, {"say": "three"}))
    session_id = client.session()
    cursor = client.call("GET", "/sessions").headers["bullpen-cursor"]
    for run_id in ("r1", "r2", "r3"):
        client.prompt(session_id, f"prompt {run_id}", run_id)
        client = crash(client)
        stream = client.stream(after=cursor)
        stream.completion(run_id)
    client.ok("GET", "/sessions")
    messages = check_ended(client, session_id)
    assert [text_of(m) for m in messages if m["role"] == "user"] == ["prompt r1", "prompt r2", "prompt r3"]
    ends = Counter(done["run_id"] for done in replay(client, cursor).seen("run_complete"))
    assert ends == {"r1": 1, "r2": 1, "r3": 1}


def test_what_was_queued_runs_once_after_a_crash(bullpen: Bullpen) -> None:
    """The turn that ran is ended, the prompts behind it run in their order when the workspace is opened again."""
    script: list[dict[str, Any]] = [
        {"when": "hang", "say": "working", "hang": True},
        *({"when": f"p{n}", "say": f"a{n}"} for n in (1, 2)),
    ]
    client = bullpen.attach(bullpen.project(*script))
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "hang", "r0")
    stream.speaking(session_id, "working")
    for n in (1, 2):
        client.prompt(session_id, f"p{n}", f"r{n}")
    client = crash(client)
    again = client.stream(after=stream.last_id)
    again.completion("r2")
    ends = [(d["run_id"], d.get("text"), "error" in d) for d in again.seen("run_complete")]
    assert ends == [("r0", "working", True), ("r1", "a1", False), ("r2", "a2", False)]
    assert [text_of(m) for m in check_ended(client, session_id)] == [
        "hang",
        "working",
        "p1",
        "a1",
        "p2",
        "a2",
    ]
    check_no_gap(stream, again, client)


def test_nothing_runs_before_somebody_comes_back(bullpen: Bullpen) -> None:
    """An accepted prompt needs its client's environment and trust, so the server alone does not start it."""
    client = bullpen.attach(bullpen.project({"when": "hang", "hang": True}, {"say": "later"}))
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "hang", "r0")
    stream.next("message", "created", role="assistant")
    client.prompt(session_id, "wait", "r1")
    bullpen.kill()
    bullpen.restart()
    assert bullpen.workspaces() == []
    bullpen.kill()
    bullpen.restart()
    client = bullpen.attach(client.path)
    again = client.stream(after=stream.last_id)
    assert again.completion("r1")["text"] == "later"
    assert [done["run_id"] for done in again.seen("run_complete")] == ["r0", "r1"]


def test_an_idempotency_key_outlives_the_crash(bullpen: Bullpen) -> None:
    """A client that did not see the 202 sends again and starts nothing."""
    client = bullpen.attach(bullpen.project({"say": "once"}, {"say": "twice"}))
    stream, session_id = client.stream(), client.session()
    body = {"session_id": session_id, "prompt": "hi"}
    first = client.call("POST", "/agent", body, headers={"Idempotency-Key": "k"})
    stream.completion(first.json()["run_id"])
    client = crash(client)
    second = client.call("POST", "/agent", body, headers={"Idempotency-Key": "k"})
    assert (second.status_code, second.json()) == (202, first.json())
    assert [text_of(message) for message in check_ended(client, session_id)] == ["hi", "once"]


def test_killed_while_starting(bullpen: Bullpen) -> None:
    """Crashes on the way up change nothing: the interrupted turn still ends exactly once."""
    client = bullpen.attach(bullpen.project({"say": "working", "hang": True}))
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "hang", "r1")
    stream.speaking(session_id, "working")
    bullpen.kill()
    for _ in range(3):
        bullpen.launch()
        until(lambda: Path(bullpen.socket).exists(), "the socket")
        bullpen.kill()
    bullpen.restart()
    client = bullpen.attach(client.path)
    again = replay(client, stream.last_id)
    assert len(again.seen("run_complete", run_id="r1")) == 1
    check_ended(client, session_id)
    check_no_gap(stream, again, client)


def test_acknowledged_writes_survive(bullpen: Bullpen) -> None:
    """Sessions, titles, deletions and choices that were answered 200 are there after a kill."""
    client = bullpen.attach(bullpen.project({"say": "hi"}))
    kept, gone = client.session("Kept"), client.session("Gone")
    client.ok("PUT", f"/sessions/{kept}", {"title": "Renamed"})
    client.ok("DELETE", f"/sessions/{gone}")
    client.ok("POST", "/config/compact", {"scope": 1, "enabled": True})
    client = crash(client)
    assert [(s["id"], s["title"]) for s in client.ok("GET", "/sessions")] == [(kept, "Renamed")]
    assert client.info["config"]["options"]["tui"] == {"compact_mode": True}


# At every step


def _is_message(role: str, part: str = "", action: str = "") -> Callable[[Seen], bool]:
    def check(event: Seen) -> bool:
        if event.kind != "message" or event.data["role"] != role or action not in {"", event.action}:
            return False
        return not part or bool(parts_of(event.data, part))

    return check


STEPS: dict[str, Callable[[Seen], bool]] = {
    "prompt stored": _is_message("user"),
    "answer begun": _is_message("assistant", action="created"),
    "call begun": _is_message("assistant", "tool_call"),
    "permission granted": lambda e: e.kind == "permission_notification" and e.data["granted"],
    "file written": lambda e: e.kind == "file" and e.data["version"] == 1,
    "result stored": _is_message("tool"),
    "step finished": _is_message("assistant", "finish"),
    "answer growing": lambda e: _is_message("assistant")(e) and "word5" in text_of(e.data),
    "run complete": lambda e: e.kind == "run_complete",
}


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step(bullpen: Bullpen, tmp_path: Path, step: str) -> None:
    """Wherever it hits: one end of the run, no open message, every call answered, no event lost or doubled."""
    target = tmp_path / "out.txt"
    call = {"id": "c1", "name": "write", "input": {"file_path": str(target), "content": "out"}}
    said = " ".join(f"word{n}" for n in range(100))
    client = bullpen.attach(bullpen.project({"say": "see", "calls": [call]}, {"say": said, "pace_ms": 2}))
    stream, session_id = client.stream(), client.session()
    client.prompt(session_id, "go", "r1")
    if step not in {"prompt stored", "answer begun", "call begun"}:
        client.grant(stream.next("permission_request"))
    stream.wait(STEPS[step], step)
    client = crash(client)
    stream.wait_end()
    again = client.stream(after=stream.last_id)
    again_done = stream.seen("run_complete") or [again.completion("r1")]
    assert [done["run_id"] for done in again_done] == ["r1"]
    messages = check_ended(client, session_id)
    shown = [e.data["id"] for e in stream.events if e.kind == "message" and e.action == "created"]
    assert [m["id"] for m in messages][: len(shown)] == shown
    assert len(stream.seen("run_complete")) + len(again.seen("run_complete")) == 1
    check_no_gap(stream, again, client)
