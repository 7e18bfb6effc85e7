"""SIGTERM in the middle of work: new work is refused, all is stored, and nothing is worse than after SIGKILL."""

from __future__ import annotations

import signal
import time
import uuid
from pathlib import Path

from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.kill.crowd import Wire
from tests.faults.kill.lives import Lives
from tests.faults.kill.seed import new_seed
from tests.journeys.server import Bullpen, Client, until
from tests.journeys.stream import parts_of, reason_of

STUBBORN = "trap '' TERM; echo $$ > {note}; sleep 30"

STOPS = sized(4, 60)


def at_work(home: Bullpen) -> tuple[Client, str, int]:
    """A turn in the middle of a command that ignores SIGTERM: the session, and the command's process."""
    note = home.home / "pid"
    command = {"description": "stay", "command": STUBBORN.format(note=note)}
    script = {"when": "stay", "calls": [{"id": "c1", "name": "bash", "input": command}]}
    client = home.start().attach(home.project(script, {"say": "hello"}))
    session = client.session()
    client.prompt(session, "stay", "r1", permissions="allow")
    pid = int(until(lambda: note.exists() and note.read_text().strip(), "the command to run"))
    return client, session, pid


def until_refused(wire: Wire, client: Client, session: str) -> None:
    """Ask for new work until there is none to be had: no new workspace (503), nothing in the old one."""
    create = {"path": str(client.path), "client_id": str(uuid.uuid4())}
    while (status := wire.request("POST", "/workspaces", create)[0]) == 200:
        pass
    assert status == 503
    prompt = {"session_id": session, "prompt": "more"}
    assert wire.request("POST", f"{client.url}/agent", prompt)[0] in (404, 409)


def test_new_work_is_refused_and_the_server_leaves(home: Bullpen, figure: Figure) -> None:
    """A command that does not want to end is ended, and the log is folded into the database."""
    client, session, pid = at_work(home)
    wire = Wire(home.socket)
    began = time.monotonic()
    home.process.send_signal(signal.SIGTERM)
    until_refused(wire, client, session)
    refused_s = time.monotonic() - began
    wire.close()
    assert home.exited() == 0
    left_s = time.monotonic() - began
    assert not Path(f"/proc/{pid}").exists()
    assert not (home.data / "bullpen.db-wal").exists()
    home.start()
    messages = home.attach(client.path).messages(session)
    assert [reason_of(message) for message in messages] == ["stop", "canceled", "stop"]
    figure(
        "R-30",
        "KILL",
        f"refused after {refused_s * 1000:.0f} ms, gone after {left_s:.1f} s, a stubborn tool included",
    )


def test_a_second_signal_ends_it_at_once(home: Bullpen, figure: Figure) -> None:
    """What was acknowledged is there all the same, and the command goes too."""
    client, session, pid = at_work(home)
    wire = Wire(home.socket)
    home.process.send_signal(signal.SIGTERM)
    until_refused(wire, client, session)
    wire.close()
    began = time.monotonic()
    home.process.send_signal(signal.SIGTERM)
    assert home.exited() == 128 + signal.SIGTERM
    took_s = time.monotonic() - began
    until(lambda: not Path(f"/proc/{pid}").exists(), "the command to be ended")
    home.start()
    answer = home.attach(client.path).messages(session)[1]
    # The cancel of the first signal was stored before the second came, or the next start found the turn interrupted.
    assert reason_of(answer) in ("canceled", "error")
    assert len(parts_of(answer, "tool_call")) == 1
    figure("R-30", "KILL", f"a second signal: gone after {took_s * 1000:.0f} ms")


def test_stopping_is_no_worse_than_a_crash(home: Bullpen, figure: Figure) -> None:
    """The same crowd and the same checker, with SIGTERM in the middle of everything, some of them twice."""
    lives = Lives(home, new_seed())
    for n in range(STOPS):
        lives.live(stop="twice" if n % 2 else "once")
        if n % 4 == 3:
            lives.rest()
    lives.rest()
    total = lives.totals
    assert lives.deaths == {"stopped once": STOPS // 2, "stopped twice": STOPS // 2}
    figure(
        "R-30",
        "KILL",
        f"0 of {total['writes']:,} answered writes lost in {STOPS} stops, half of them by two signals",
    )
