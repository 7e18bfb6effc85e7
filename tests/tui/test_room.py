"""Two people at real terminals in one session: a prompt, a permission, a stop, and what kill -9 does to either side."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.cli.conftest import Open, Screen, env, home, terminal
from tests.journeys.server import Bullpen

__all__ = ("env", "home", "terminal")

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(150)]

BUILD = {"name": "bash", "input": {"command": "echo made > out.txt; cat out.txt", "description": "build it"}}
SCRIPT = (
    {"when": "build", "say": "I will build it.", "calls": [BUILD]},
    {"when": "build", "say": "It is built."},
    {"when": "slow", "say": " ".join(f"word{n}" for n in range(2000)), "pace_ms": 20},
    {"when": "crawl", "say": " ".join(f"step{n}" for n in range(2000)), "pace_ms": 20},
    {"when": "again", "say": "Here I am."},
)


@pytest.fixture
def own() -> Iterator[Bullpen]:
    """A server that may be killed."""
    with tempfile.TemporaryDirectory(prefix="bp", ignore_cleanup_errors=True) as directory:
        server = Bullpen(Path(directory)).start()
        yield server
        server.stop()


async def test_two_terminals_live_through_everything_together(own: Bullpen, terminal: Open) -> None:
    project = own.project(*SCRIPT)

    def sit(name: str, columns: int = 100, rows: int = 30) -> Screen:
        where = ("attach", str(project), "--host", f"unix://{own.socket}", "--name", name)
        return terminal(*where, columns=columns, rows=rows)

    ana = sit("ana")
    await ana.until("connected")
    ana.type("build it")
    await ana.until("May it?", "echo made > out.txt")

    # Whoever comes later finds the ask as it is; the first answer counts, and both see it go.
    ben = sit("ben", columns=80, rows=24)
    await ben.until("May it?", "echo made > out.txt")
    # The dialog lets a moment pass in which a typing person answers nothing.
    while "May it?" in ben.text():
        ben.send("a")
        await anyio.sleep(0.2)
    await ana.until("It is built.")
    await ben.until("It is built.")
    assert "May it?" not in ana.text()
    assert (project / "out.txt").read_text() == "made\n"

    # One types, both see it grow; one stops it, both see that.
    ana.type("slow please")
    await ben.until("slow please", "word5")
    ben.send("Escape")
    await ben.until("stopped")
    await ana.until("CANCELLED")

    # A client that is killed takes nobody with it.
    cat = sit("cat")
    await cat.until("connected", "word5")
    [pid] = [
        pid
        for pid in clients(str(project))
        if b"cat" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    ]
    os.kill(pid, signal.SIGKILL)
    await cat.until("status 137")

    # A server that is killed is told truthfully, and when it is back everything is there.
    ana.type("crawl")
    await ana.until("step3")
    own.kill()
    await ana.until("offline")
    await ben.until("offline")
    own.restart()
    await ana.until("connected", "INTERRUPTED")
    await ben.until("connected", "INTERRUPTED")
    ben.type("again")
    await ana.until("Here I am.")
    await ben.until("Here I am.")
    ana.send("C-c")
    ana.send("C-c")
    await ana.until("[status 0]")


def clients(project: str) -> list[int]:
    """The processes that are attached to a project."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"attach" in words and project.encode() in words and words[0].endswith(b"python"):
            found.append(int(pid))
    return found
