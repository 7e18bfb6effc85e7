"""No crash loop: a prompt that downs the server three times is not tried a fourth time."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path

from tests.conftest import Figure
from tests.faults.kill.crowd import Gone, Wire
from tests.journeys.server import Bullpen, Client
from tests.journeys.stream import reason_of

RAW = Path(__file__).parents[2] / "mcp/raw.py"
"""An MCP server that can misbehave; `count` dies after its greeting."""

SAID = "quarantined: the server went down 3 times with this prompt, so it is not tried again"


def accept(client: Client, session: str, text: str, run_id: str) -> None:
    """Send a prompt to a server that may die of it before it answers."""
    wire = Wire(client.server.socket)
    body = {"session_id": session, "prompt": text, "run_id": run_id}
    with contextlib.suppress(Gone):
        wire.request("POST", f"{client.url}/agent", body)
    wire.close()


def open_and_die(home: Bullpen, client: Client) -> bool:
    """Start the server and open the workspace; True when that killed it."""
    home.launch()
    wire = Wire(home.socket)
    body = {"path": str(client.path), "client_id": client.client_id}
    while home.process.poll() is None:
        with contextlib.suppress(Gone):
            is_open = wire.request("POST", "/workspaces", body)[0] == 200
            if is_open and not wire.request("GET", f"{client.url}/agent")[1]["is_busy"]:
                wire.close()
                return False
    wire.close()
    assert home.process.wait() == -signal.SIGKILL, home.log[-2000:]
    return True


def test_a_prompt_that_cannot_be_begun(home: Bullpen, figure: Figure) -> None:
    """It is accepted, and each time it is to begin the server dies."""
    home.start(BULLPEN_FAILPOINTS="turn-beginning=kill")
    client = home.attach(home.project({"say": "hello"}))
    session = client.session()
    cursor = client.call("GET", "/sessions").headers["bullpen-cursor"]
    accept(client, session, "deadly", "r1")
    home.kill()
    deaths = 1
    while open_and_die(home, client):
        deaths += 1
        assert deaths <= 5
    stream = client.stream(after=cursor)
    done = stream.completion("r1")
    assert (done["error"], len(stream.seen("run_complete"))) == (SAID, 1)
    assert client.messages(session) == []
    home.kill()
    home.start(BULLPEN_FAILPOINTS="")
    client = home.attach(client.path)
    again = client.stream()
    again.completion(client.prompt(session, "harmless", "r2"))
    assert deaths == 3
    figure("R-32", "KILL", f"quarantined after {deaths} attempts to begin it")


def test_a_turn_that_cannot_be_closed(home: Bullpen, figure: Figure) -> None:
    """Recovery itself dies of it; the fourth start does not look at it any more."""
    client = home.start().attach(
        home.project({"when": "hang", "say": "so far", "hang": True}, {"say": "hello"})
    )
    session = client.session()
    before = client.stream()
    client.prompt(session, "hang", "r1")
    before.speaking(session, "so far")
    home.kill()
    home.env["BULLPEN_FAILPOINTS"] = "turn-recovering=kill"
    deaths = 1
    while open_and_die(home, client):
        deaths += 1
        assert deaths <= 5
    stream = client.stream(after=before.last_id)
    assert stream.completion("r1")["error"] == SAID
    assert [reason_of(m) for m in client.messages(session)] == ["stop", "error"]
    stream.completion(client.prompt(session, "go on", "r2"))
    assert deaths == 3
    figure("R-32", "KILL", f"quarantined after {deaths} attempts to close it")


def test_an_outside_server_that_dies_all_the_time_is_left_alone(home: Bullpen, figure: Figure) -> None:
    """Started once and five times more; then everybody is told why there is no sixth time."""
    starts = home.home / "starts"
    command = {"type": "stdio", "command": sys.executable, "args": ["-S", str(RAW), "count", str(starts)]}
    client = home.start().attach(home.project({"say": "hello"}, mcp={"raw": command}))
    stream = client.stream()
    told = stream.next("mcp_event", name="raw", state="error")["error"]
    count = len(starts.read_text().splitlines())
    assert told.startswith("stopped after 5 restarts in 3 minutes")
    assert client.ok("GET", "/mcp/states")["raw"]["error"] == told
    session = client.session()
    assert stream.completion(client.prompt(session, "go on", "r1"))["text"] == "hello"
    assert count == 6
    figure(
        "R-32",
        "KILL",
        f"an MCP server that always dies: {count - 1} restarts, then it is left alone and says so",
    )
