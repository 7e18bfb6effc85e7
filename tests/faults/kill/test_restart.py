"""A restart after SIGKILL is quick and complete, also with much to open and much to close."""

from __future__ import annotations

import asyncio
import signal
import time
import uuid

from tests.campaign import sized
from tests.conftest import Figure
from tests.journeys.server import Bullpen, until

from bullpen.store import sessions
from bullpen.store.store import open_store
from bullpen.store.tx import Tx
from bullpen.system.clock import SystemClock

SESSIONS = 10_000
UNFINISHED = 100
MIGRATIONS = sized(2, 50)


async def fill(home: Bullpen, workspace: str) -> None:
    """The sessions of years, written straight into the store of a server that is not running."""

    async def work(tx: Tx) -> None:
        for n in range(SESSIONS):
            await sessions.create(tx, workspace, str(uuid.uuid4()), f"Session {n}")

    async with open_store(home.data, clock=SystemClock(), attached=lambda workspace, session: 0) as store:
        await store.write(work)


def test_ten_thousand_sessions_and_a_hundred_unfinished_runs(home: Bullpen, figure: Figure) -> None:
    """Every run that was under way ends, exactly once, and nothing else is disturbed."""
    client = home.start().attach(home.project({"say": "so far", "hang": True}))
    assert home.terminate() == 0
    asyncio.run(fill(home, client.info["id"]))
    home.start()
    client = home.attach(client.path)
    stream = client.stream()
    chosen = [client.session(f"Busy {n}") for n in range(UNFINISHED)]
    runs = {client.prompt(session, "go", f"run {session}") for session in chosen}
    for session in chosen:
        stream.speaking(session, "so far")
    last = stream.last_id
    home.kill()

    began = time.monotonic()
    home.launch()
    until(home.answers, "the server to answer")
    ready_s = time.monotonic() - began
    client = home.attach(client.path)
    again = client.stream(after=last)
    for run in runs:
        again.completion(run)
    resolved_s = time.monotonic() - began
    ends = [done["run_id"] for done in again.seen("run_complete")]
    assert sorted(ends) == sorted(runs)
    assert len(client.ok("GET", "/sessions")) == SESSIONS + UNFINISHED
    assert not client.ok("GET", "/agent")["is_busy"]
    figure(
        "R-31",
        "KILL",
        f"{SESSIONS:,} sessions, {UNFINISHED} unfinished runs: ready after {ready_s:.2f} s, all resolved after {resolved_s:.2f} s",
    )


def test_killed_in_a_migration(home: Bullpen, figure: Figure) -> None:
    """Inside its transaction and right after it: the next start finds a database that it can use."""
    for n in range(MIGRATIONS):
        home.env["BULLPEN_FAILPOINTS"] = ("migrating=kill", "migrated=kill")[n % 2]
        home.launch()
        assert home.exited() == -signal.SIGKILL
        home.env["BULLPEN_FAILPOINTS"] = ""
        client = home.start().attach(home.home / "projects")
        kept = client.session("Kept")
        assert [session["id"] for session in client.ok("GET", "/sessions")] == [kept]
        home.kill()
        for left in home.data.glob("bullpen.db*"):
            left.unlink()
    figure("R-36", "KILL", f"0 unreadable after {MIGRATIONS} kills inside and after a migration")
