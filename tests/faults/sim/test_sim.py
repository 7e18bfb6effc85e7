"""The whole server on a virtual clock, with seeded people, models, tools and misfortunes.

Every seed is a world of its own (see `story.py`): first everything goes wrong, and nothing may be lost, doubled or out of order
meanwhile; then all is calm, and everything has to end. What must be true stands in `checks.py`:

* R-03  prompts run in the order they were accepted, across restarts;
* R-04  an answered cancel is never lost, whatever it met, also when a crash follows it;
* R-05  and covers nothing that was accepted after it;
* R-06  every accepted run has exactly one end;
* R-13  every client sees every durable event once and in order;
* R-17  a silent server sends a heartbeat every 15 s, and dead peers are known within 45 s;
* R-28  an ask is settled once, and everybody is told;
* R-29  nobody's leaving ends a run of an `outlive` workspace, and no workspace with clients is closed;
* R-35  none of this changes when clocks step by a day, or the machine sleeps for eight hours.

`BULLPEN_SEED=17 pytest tests/faults/sim -k one_seed -s` lives through one seed again and prints its trace.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.sim.story import Outcome, run_seed

PARTS = sized(1, 8)
"""The campaign in pieces that several processes can share."""

SEEDS = sized(70, 20_000)

MOST_WRONG = 10
"""A part of the campaign that found so many wrong seeds looks for no more."""

MET = (
    "before dispatch",
    "queued",
    "in the answer",
    "in an ask",
    "in a tool",
    "in a summary",
    "followed by a crash",
)
"""What cancels have to meet in a campaign that deserves the name."""

OFTEN_MET = ("queued", "in the answer", "in an ask", "in a tool", "followed by a crash")
"""Those that a hundred seeds are sure to meet, whatever a change does to the course of their stories."""

MISFORTUNES = (
    "crashes",
    "stops",
    "disk refusals",
    "clock steps",
    "suspends",
    "cuts of all",
    "times with nobody there",
)

REPLAY = """
from pathlib import Path
import sys
from tests.faults.sim.story import run_seed
print(*(run_seed(seed, Path(sys.argv[1]) / str(seed)).digest for seed in range(int(sys.argv[2]))))
"""


@contextmanager
def memory() -> Iterator[Path]:
    """A directory in memory, where there is one: these worlds decide themselves how slow a disk is. Its name is always of the
    same length, and so is what the server says of it, which decides where the network may cut it."""
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="bpsim-", dir=shm if shm.is_dir() else None) as directory:
        yield Path(directory)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Servers that lose their disk complain at length."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def live_through(seeds: range) -> list[Outcome]:
    """Raises for the seeds in which something is wrong, several of them, so that one run shows all that can be."""
    outcomes: list[Outcome] = []
    wrong: list[str] = []
    with memory() as base:
        for seed in seeds:
            outcome = run_seed(seed, base / str(seed))
            outcome.trace.clear()
            outcomes.append(outcome)
            if outcome.wrong:
                wrong.append(f"BULLPEN_SEED={seed}: {outcome.wrong}")
            if len(wrong) == MOST_WRONG:
                break
    assert not wrong, "\n".join(wrong)
    return outcomes


@pytest.mark.timeout(sized(300, 3600))
@pytest.mark.parametrize("part", range(PARTS))
def test_seeds(part: int, figure: Figure) -> None:
    outcomes = live_through(range(part, SEEDS, PARTS))
    tally: Counter[str] = sum((o.tally for o in outcomes), Counter())
    cancels = sum(tally[f"cancel {met}"] for met in MET[:-1])
    worlds = f"{len(outcomes):,} worlds"
    assert all(tally[kind] for kind in MISFORTUNES), tally
    assert all(tally[f"cancel {met}"] for met in sized(OFTEN_MET, MET)), tally
    figure(
        "R-03", "SIM", f"0 inversions in {tally['prompts']:,} prompts, {worlds}, {tally['crashes']:,} crashes"
    )
    figure(
        "R-04", "SIM", f"0 of {cancels:,} lost, {tally['cancel followed by a crash']:,} followed by a crash"
    )
    figure("R-05", "SIM", f"0 of {tally['prompts']:,} prompts ended by a cancel before them")
    figure("R-06", "SIM", f"0 missing, 0 double ends of {tally['prompts']:,} prompts")
    figure("R-13", "SIM", f"0 gaps, 0 doubles in {tally['events']:,} events, {tally['streams']:,} streams")
    gap, notice = max(o.longest_gap_s for o in outcomes), max(o.slowest_notice_s for o in outcomes)
    figure(
        "R-17",
        "SIM",
        f"longest silence {gap:.1f} s; dead peer known to the server after at most {notice:.1f} s",
    )
    figure("R-28", "SIM", f"0 of {tally['asks']:,} asks settled twice or in silence")
    figure("R-29", "SIM", f"0 runs ended and 0 workspaces closed by {tally['goodbyes']:,} clients that left")
    steps = f"{tally['clock steps']:,} clock steps of a day, {tally['suspends']:,} suspends of 8 h"
    figure("R-35", "SIM", f"0 wrongly expired in {worlds} with {steps}")


@pytest.mark.timeout(sized(300, 3600))
def test_the_same_seed_is_the_same_world(figure: Figure) -> None:
    """Event for event, with the same ids at the same times, in another process with other hashes and addresses."""
    count = sized(6, 100)
    here = [outcome.digest for outcome in live_through(range(count))]
    with memory() as base:
        there = subprocess.run(
            [sys.executable, "-c", REPLAY, str(base), str(count)],
            env={**os.environ, "PYTHONHASHSEED": "4711"},
            capture_output=True,
            text=True,
            check=True,
        )
    assert there.stdout.split() == here
    figure("R-35", "SIM", f"{count} of {count} seeds replay exactly")


if "BULLPEN_SEED" in os.environ:

    def test_one_seed() -> None:
        with memory() as base:
            outcome = run_seed(int(os.environ["BULLPEN_SEED"]), base / os.environ["BULLPEN_SEED"])
        print(*outcome.trace, sep="\n")
        print(outcome.digest, dict(outcome.tally))
        assert not outcome.wrong
