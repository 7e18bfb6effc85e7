"""A turn of fifty steps, each with an effect: killed, reset or cancelled at any of them it ends once, and no effect comes twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.kill.test_quarantine import accept
from tests.journeys.server import Bullpen, Client
from tests.journeys.stream import Stream, reason_of

STEPS = 50
AT = sized((26,), tuple(range(1, STEPS)))
"""The steps at which the turn is cut."""

MOMENTS = ("step-begun", "call-intended", "result-stored")


def step(n: int, *, fails: bool = False) -> dict[str, Any]:
    """Says something, then appends its number to a file."""
    call = {"id": f"c{n}", "name": "bash", "input": {"command": f"echo {n} >> made", "description": "count"}}
    said: dict[str, Any] = {"say": f"step {n}. ", "calls": [call]}
    if fails:
        said["fail"] = {"message": "reset", "times": 1, "retry_after_s": 0}
    return said


def script(*, fails: bool = False) -> list[dict[str, Any]]:
    return [*(step(n, fails=fails) for n in range(1, STEPS + 1)), {"say": "all done"}]


def made(client: Client) -> list[int]:
    """The effects, in the order in which they happened."""
    file = Path(client.path) / "made"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def texts(client: Client, session: str) -> list[str]:
    said = [m for m in client.messages(session) if m["role"] == "assistant"]
    return ["".join(p["data"]["text"] for p in m["parts"] if p["type"] == "text") for m in said]


def check_whole(client: Client, session: str) -> None:
    """Every call has one result, every message an end, and no step was said or done twice."""
    found = client.messages(session)
    calls = [p["data"]["id"] for m in found for p in m["parts"] if p["type"] == "tool_call"]
    results = [p["data"]["tool_call_id"] for m in found for p in m["parts"] if p["type"] == "tool_result"]
    assert len(set(calls)) == len(calls)
    assert sorted(results) == sorted(calls)
    assert all(reason_of(m) for m in found)
    done = made(client)
    assert done == list(range(1, len(done) + 1))


def ends(stream: Stream, run_id: str) -> int:
    return sum(e["run_id"] == run_id for e in stream.seen("run_complete"))


@pytest.mark.timeout(sized(120, 3600))
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_step(home: Bullpen, figure: Figure, moment: str) -> None:
    cut = 0
    for n in AT:
        home.start(BULLPEN_FAILPOINTS=f"{moment}=kill@{n}")
        client = home.attach(home.project(*script()), yolo=True)
        session = client.session()
        cursor = client.call("GET", "/sessions").headers["bullpen-cursor"]
        accept(client, session, "go", "r")
        home.process.wait()
        home.kill()
        home.start(BULLPEN_FAILPOINTS="")
        client = home.attach(client.path, yolo=True)
        stream = client.stream(after=cursor)
        done = stream.completion("r")
        assert done["error"] == "the server stopped while the turn was running"
        check_whole(client, session)
        assert len(made(client)) in (n - 1, n)
        # The session takes the next prompt, and the end of the last one is still the only one.
        stream.completion(client.prompt(session, "and now", "r2"))
        assert ends(stream, "r") == 1
        cut += 1
        home.kill()
    figure(
        "R-06",
        "KILL",
        f"a turn of {STEPS} steps killed at {cut} of them ({moment}): 1 end each, 0 effects twice",
    )


@pytest.mark.timeout(sized(120, 3600))
def test_cancelled_at_any_step(home: Bullpen, figure: Figure) -> None:
    home.start()
    for n in AT:
        client = home.attach(home.project(*script()), yolo=True)
        stream, session = client.stream(), client.session()
        client.prompt(session, "go", "r")
        stream.speaking(session, f"step {n}. ")
        client.cancel(session)
        assert stream.completion("r")["cancelled"] is True
        stream.completion(client.prompt(session, "and now", "r2"))
        check_whole_or_cut(client, session, n)
        assert ends(stream, "r") == 1
        client.leave()
    figure(
        "R-06", "KILL", f"a turn of {STEPS} steps cancelled at {len(AT)} of them: 1 end each, 0 effects twice"
    )


def check_whole_or_cut(client: Client, session: str, n: int) -> None:
    """The cut step itself may have no effect; what follows goes on in the script."""
    done = made(client)
    assert len(set(done)) == len(done)
    assert done[: n - 1] == list(range(1, n))
    assert all(reason_of(m) for m in client.messages(session))


@pytest.mark.timeout(120)
def test_reset_at_every_step(home: Bullpen, figure: Figure) -> None:
    """The connection breaks in each step after its words and before its call: what was said half is said once."""
    home.start()
    client = home.attach(home.project(*script(fails=True)), yolo=True)
    stream, session = client.stream(), client.session()
    client.prompt(session, "go", "r")
    assert stream.completion("r")["text"] == "all done"
    check_whole(client, session)
    assert made(client) == list(range(1, STEPS + 1))
    assert texts(client, session) == [*(f"step {n}. " for n in range(1, STEPS + 1)), "all done"]
    assert len(stream.seen("run_waiting")) == 2 * STEPS
    assert ends(stream, "r") == 1
    figure("R-06", "KILL", f"a turn of {STEPS} steps with a reset in each: done, 0 words or effects twice")
