"""A cancel in every state of a turn, followed by SIGKILL: before anything is told, before the answer, after it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.kill.crowd import Gone, Wire
from tests.journeys.server import Bullpen, Client, until
from tests.journeys.stream import Stream, reason_of

ROUNDS = sized(1, 10)

MOMENTS = ("cancel-stored", "cancel-done", "answered")

Reach = Callable[["Room", str], None]


class Tried(NamedTuple):
    """A session in which a cancel was followed by a death, to be looked at in the next life."""

    session: str
    cursor: str
    where: str


class Room:
    """One workspace whose model does what its prompt names; a life of its server per try."""

    def __init__(self, home: Bullpen) -> None:
        self.home = home
        self.pids = home.home / "pids"
        stubborn = f"trap '' TERM; echo $$ >> {self.pids}; sleep 30"
        script: list[dict[str, Any]] = [
            {"when": "[stream]", "say": " ".join(["word"] * 4_000), "pace_ms": 5},
            {"when": "[hang]", "hang": True},
            {"when": "[ask]", "calls": [_bash("echo asked > asked")]},
            {"when": "[tool]", "calls": [_bash(stubborn)]},
            {"when": "[hello]", "say": "hello"},
            {"purpose": "summary", "say": "a summary", "hang": True},
        ]
        self.path = home.project(*script)
        self.client: Client
        self.stream: Stream

    def begin(self, failpoint: str) -> None:
        self.home.start(BULLPEN_FAILPOINTS=failpoint)
        self.client = self.home.attach(self.path)
        self.stream = self.client.stream()

    def prompt(self, session: str, text: str, **more: Any) -> str:
        return self.client.prompt(session, text, f"run {text} {session}", **more)


def _bash(command: str) -> dict[str, Any]:
    return {"id": "c1", "name": "bash", "input": {"description": "do", "command": command}}


def before_dispatch(room: Room, session: str) -> None:
    room.prompt(session, "[hang]")


def queued(room: Room, session: str) -> None:
    room.prompt(session, "[hang]")
    room.prompt(session, "[hello]")


def streaming(room: Room, session: str) -> None:
    room.prompt(session, "[stream]")
    room.stream.speaking(session, "word word")


def asking(room: Room, session: str) -> None:
    room.prompt(session, "[ask]")
    room.stream.next("permission_request", session_id=session)


def in_a_tool(room: Room, session: str) -> None:
    room.pids.unlink(missing_ok=True)
    room.prompt(session, "[tool]", permissions="allow")
    until(lambda: room.pids.exists() and room.pids.read_text().strip(), "the command to run")


def summarising(room: Room, session: str) -> None:
    """Whoever asks for a summary waits for it, so the request is left to itself."""
    done = room.prompt(session, "[hello]")
    room.stream.completion(done)
    wire = Wire(room.home.socket)
    wire.send("POST", f"{room.client.url}/agent/sessions/{session}/summarize")
    room.stream.speaking(session, "a summary")
    wire.close()


STATES: tuple[Reach, ...] = (before_dispatch, queued, streaming, asking, in_a_tool, summarising)


RUNS: dict[Reach, int] = {queued: 2, summarising: 0}
"""How many runs there are to end; one, where nothing is said. A summary is none."""


@pytest.mark.parametrize("reach", STATES, ids=lambda reach: reach.__name__)
def test_a_cancel_survives_whatever_follows(home: Bullpen, figure: Figure, reach: Reach) -> None:
    """Everything accepted before it ends as cancelled, once; nothing runs, and no process stays."""
    room = Room(home)
    ended, gone_s = 0, 0.0
    last: Tried | None = None
    for moment in MOMENTS * ROUNDS:
        room.begin("" if moment == "answered" else f"{moment}=kill")
        if last is not None:
            ended += _check(room, last)
        session = room.client.session()
        cursor = room.client.call("GET", "/sessions").headers["bullpen-cursor"]
        reach(room, session)
        _cancel_and_die(room, session, moment)
        if reach is in_a_tool:
            gone_s = max(gone_s, until_gone(int(room.pids.read_text())))
        last = Tried(session, cursor, f"{reach.__name__}, {moment}")
    room.begin("")
    assert last is not None
    ended += _check(room, last)
    tries = ROUNDS * len(MOMENTS)
    assert ended == tries * RUNS.get(reach, 1)
    found = (
        f"{reach.__name__.replace('_', ' ')}: 0 of {tries} cancels lost at {len(MOMENTS)} moments of death"
    )
    if gone_s:
        found += f"; a TERM-ignoring tool gone ≤ {gone_s:.1f} s after the kill"
    figure("R-04", "KILL", found)


def until_gone(pid: int) -> float:
    """Wait for the end of a process; gives back how long that took."""
    began = time.monotonic()
    until(lambda: not Path(f"/proc/{pid}").exists(), "the command to be ended")
    return time.monotonic() - began


def _cancel_and_die(room: Room, session: str, moment: str) -> None:
    wire = Wire(room.home.socket)
    try:
        status, _, _ = wire.request("POST", f"{room.client.url}/agent/sessions/{session}/cancel")
        assert (moment, status) == ("answered", 200)
    except Gone:
        assert moment != "answered"
    finally:
        wire.close()
    room.home.kill()
    room.stream.cut()


def _check(room: Room, tried: Tried) -> int:
    """After the next start; gives back how many runs ended as cancelled."""
    client = room.client
    again = client.stream(after=tried.cursor)
    head = again.headers["bullpen-cursor"]
    again.wait(lambda event: event.id == head, "the replay")
    done = again.seen("run_complete", session_id=tried.session)
    cancelled = [end["run_id"] for end in done if end.get("cancelled")]
    assert len(set(cancelled)) == len(cancelled), (tried.where, done)
    # What a summary was made of had ended before.
    assert len(done) - len(cancelled) == ("summarising" in tried.where), (tried.where, done)
    assert not client.is_busy(tried.session), tried.where
    assert all(reason_of(message) for message in client.messages(tried.session)), tried.where
    assert client.ok("GET", "/asks") == {"permissions": [], "questions": []}, tried.where
    again.cut()
    return len(cancelled)


def test_a_cancelled_tool_that_ignores_term_is_gone_soon(home: Bullpen, figure: Figure) -> None:
    """The answer does not wait for it; the process, and what it started, go."""
    room = Room(home)
    room.begin("")
    answered, gone = [], []
    for _ in range(sized(1, 10)):
        session = room.client.session()
        in_a_tool(room, session)
        pid = int(room.pids.read_text())
        began = time.monotonic()
        room.client.cancel(session)
        room.stream.next("run_complete", session_id=session, cancelled=True)
        answered.append(time.monotonic() - began)
        gone.append(answered[-1] + until_gone(pid))
    figure(
        "R-04",
        "KILL",
        f"a TERM-ignoring tool: cancelled shown after ≤ {max(answered) * 1000:.0f} ms, process gone after ≤ {max(gone):.2f} s",
    )
