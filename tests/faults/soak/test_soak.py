"""Many clients, many workspaces, faults on: nothing creeps, nothing stays, every accepted run ends once (R-38, R-33)."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import threading
from pathlib import Path

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.soak.model import config, running_model
from tests.faults.soak.process import Size, counts, settled, size, stats
from tests.faults.soak.room import Room
from tests.journeys.server import Bullpen

CLIENTS, WORKSPACES = 50, 20
SOAK_S = float(os.environ.get("BULLPEN_SOAK_S", sized(60.0, 600.0)))
WARM_S = min(10.0, SOAK_S / 4)
SAMPLE_S = 0.5

CREEP_KIB = 24 * 1024
"""How much larger the process may be in the last third than in the one before: less than one copy of anything that
could pile up in this time, more than what an allocator keeps by chance."""


MOST_THREADS = 60
"""Two pools that keep what they once needed (at most 32 and 40, but half of that is never needed at once), and the store's."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.timeout(SOAK_S + 180)
async def test_nothing_creeps(home: Bullpen, figure: Figure) -> None:
    home.start(BULLPEN_SERVER_STALL="2", BULLPEN_SERVER_DETACH_GRACE="0")
    with running_model() as model:
        projects = [project(home, n, config(model)) for n in range(WORKSPACES)]
        await visit(home, projects, WARM_S, seed=1)
        before = await asyncio.to_thread(quiet, home)
        samples: list[Size] = []
        stop = threading.Event()
        sampler = threading.Thread(target=sample, args=(home, samples, stop))
        sampler.start()
        try:
            room = await visit(home, projects, SOAK_S - WARM_S, seed=2)
        finally:
            stop.set()
            sampler.join()
        after = await asyncio.to_thread(settled, home, before, "everything to be given back")
    # No more files than before; fewer, when connections to the model that were kept then are closed by now.
    assert after._replace(rss_kib=0, threads=0, files=0) == before._replace(rss_kib=0, threads=0, files=0)
    assert after.threads <= MOST_THREADS
    assert {*room.did} >= {"talk", "freeze", "vanish", "churn", "prompted", "cancelled", "answered"}
    assert "Traceback (most recent call last)" not in home.log
    assert set(room.ended.values()) == {1}
    assert room.unended() == set()
    assert model.faults > 0
    third = len(samples) // 3
    middle, last = (
        statistics.median(s.rss_kib for s in part) for part in (samples[third:-third], samples[-third:])
    )
    assert last - middle < CREEP_KIB, f"{middle} KiB, then {last} KiB"
    report(home, room, samples, before, after, figure)


def report(home: Bullpen, room: Room, samples: list[Size], before: Size, after: Size, figure: Figure) -> None:
    gauges = stats(home)[1]
    third = len(samples) // 3
    middle, last = (
        statistics.median(s.rss_kib for s in part) for part in (samples[third:-third], samples[-third:])
    )
    most = max(s.tasks for s in samples)
    figure(
        "R-38",
        "SOAK",
        f"{SOAK_S:.0f} s, {CLIENTS} clients, {WORKSPACES} workspaces, {room.did['prompted']:,} prompts: RSS "
        f"{middle / 1024:.0f} → {last / 1024:.0f} MiB (middle, last third), fds {before.files} → {after.files}, tasks "
        f"{before.tasks} → {most} → {after.tasks}, threads {before.threads} → {after.threads}",
    )
    figure("R-06", "SOAK", f"{len(room.accepted):,} accepted runs, 0 without end, 0 with two")
    figure(
        "R-33",
        "SOAK",
        f"loop answers p50 {gauges['loop_p50_ms']} ms, p99.9 {gauges['loop_p999_ms']} ms, longest "
        f"{gauges['loop_longest_ms']} ms of {gauges['loop_answers']:,}; {counts(home).get('loop_stalls', 0)} named",
    )


def project(home: Bullpen, number: int, settings: dict[str, object]) -> Path:
    path = home.home / "projects" / f"p{number}"
    path.mkdir()
    (path / "bullpen.json").write_text(json.dumps(settings))
    return path


async def visit(home: Bullpen, projects: list[Path], seconds: float, seed: int) -> Room:
    room = Room(home.socket, projects, seed)
    try:
        await room.stay(CLIENTS, seconds)
    finally:
        await room.close()
    return room


def quiet(home: Bullpen) -> Size:
    """What the server holds when everybody has left."""
    now = size(home)
    alone = now._replace(workspaces=0, streams=0, subscriptions=0, connections=1, commands=0)
    return settled(home, alone, "everybody to be gone")


def sample(home: Bullpen, samples: list[Size], stop: threading.Event) -> None:
    with home.connect() as http:
        while not stop.wait(SAMPLE_S):
            samples.append(size(home, http))
