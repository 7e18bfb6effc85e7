"""Nothing is dropped in silence: whatever is cut, refused, repeated or ended is counted, once each (R-39)."""

from __future__ import annotations

import contextlib
import socket
import uuid
from typing import Any

from tests.conftest import Figure
from tests.faults.soak.process import counts, stats
from tests.journeys.server import Bullpen, gate, until
from tests.journeys.stream import connect

TIMES = 5
"""How often each thing is made to happen."""

LONG = " ".join(f"word{n}" for n in range(40_000))
FLOOD = {"id": "", "name": "bash", "input": {"description": "count", "command": "seq 1 20000"}}


def refused(bullpen: Bullpen, data: bytes) -> None:
    with connect(bullpen.socket) as sock, contextlib.suppress(OSError):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):
            pass


def test_counters_match_what_was_made_to_happen(home: Bullpen, figure: Figure) -> None:
    """Each thing a known number of times; the server's own counts say the same, and nothing else."""
    home.start(BULLPEN_SERVER_STALL="1")
    gates = [home.home / f"gate{n}" for n in range(TIMES)]
    retried: dict[str, Any] = {
        "when": "retry",
        "say": "hi",
        "fail": {"status": 503, "retry_after_s": 0, "times": 1},
    }
    steps = [{"when": f"held {n}", "calls": [gate(path)]} for n, path in enumerate(gates)]
    floods = [{"when": f"flood {n}", "calls": [{**FLOOD, "id": f"f{n}"}]} for n in range(TIMES)]
    client = home.attach(
        home.project(retried, *steps, *floods, {"when": "long", "say": LONG}, {"say": "hi"}), yolo=True
    )
    stream = client.stream()
    assert counts(home) == {}

    for _ in range(TIMES):
        client.stream(after="0-0").next("resync")
    # A step of a script fails only as often as it says in the life of its server: once.
    stream.completion(client.prompt(client.session(), "retry"))
    for n in range(TIMES):
        session_id = client.session()
        run_id = client.prompt(session_id, f"held {n}")
        with gates[n].open("wb", buffering=0):  # Opens when the command stands at the gate.
            client.cancel(session_id)
        stream.completion(run_id)
    for n in range(TIMES):
        stream.completion(client.prompt(client.session(), f"flood {n}"))
    for _ in range(TIMES):
        refused(home, b"NONSENSE\r\n\r\n")
        refused(home, b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000)
    for _ in range(TIMES):
        home.stream(f"{client.url}/events?client_id={uuid.uuid4()}", read=False)
    for n in range(4):
        stream.completion(client.prompt(client.session(), "long", f"r{n}"))
    until(lambda: stats(home)[1]["streams"] == 1 + TIMES, "the frozen to be cut")

    found = counts(home)
    caught_up = found.pop("catch_ups", 0)
    assert found == {
        "resyncs": TIMES,
        "provider_retries": 1,
        "commands_killed": TIMES,
        "outputs_cut": TIMES,
        "refused_400": TIMES,
        "refused_431": TIMES,
        "stalled": TIMES,
    }
    total = sum(found.values())
    figure(
        "R-39",
        "SOAK",
        f"{total} of {total} forced events of {len(found)} kinds counted, {caught_up} catch-ups, 0 unexplained",
    )


def test_the_counts_are_told_at_the_end(bullpen: Bullpen) -> None:
    client = bullpen.attach(bullpen.project({"say": "hi"}))
    client.stream(after="0-0").next("resync")
    assert bullpen.terminate() == 0
    (line,) = [each for each in bullpen.log.splitlines() if "stopped: " in each]
    assert "resyncs 1, " in line
    assert "loop_p999_ms" in line
