"""SIGKILL at every failpoint and at random moments: what was acknowledged is there, and nothing happens twice."""

from __future__ import annotations

import random
import statistics

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.kill.lives import AT_START, Lives
from tests.faults.kill.seed import new_seed
from tests.journeys.server import Bullpen

from bullpen.system.failpoints import NAMES

REST_EVERY = sized(5, 10)
"""Lives between two checks: crashes meet the remains of crashes, and a failure still names a short stretch."""

ELSEWHERE = {"migrating", "migrated", "undo-begun", "undo-restoring", "undo-restored"}
"""A fresh file is needed for migrations; `test_killed_in_a_migration` has one. Undo has `test_undo.py`."""

POINTS = [name for name in NAMES if name not in ELSEWHERE]
OFTEN = {"committing": 17, "committed": 17, "text-grown": 3, "result-stored": 1, "model-asked": 2}
"""These come more than once in a life; later rounds wait for a later one."""

TRIES = 3
"""On a busy machine a moment may be missed: a prompt has begun before it could be edited."""

ROUNDS = sized(1, 4)
KILLS = sized(8, 1_000)
GROUPS = sized(1, 8)


@pytest.mark.parametrize("group", range(4))
def test_killed_at_every_failpoint(home: Bullpen, figure: Figure, group: int) -> None:
    """In every state of a turn, of a cancel, of the queue, of recovery and of leaving: half of them for each change, drawn anew, and all in
    the long campaign."""
    seed = new_seed()
    lives = Lives(home, seed)
    points = POINTS[group::4]
    points = sized(random.Random(seed).sample(points, len(points) // 2), points)
    for n in range(ROUNDS):
        for life, point in enumerate(points, start=1):
            for _ in range(TRIES):
                lives.live(f"{point}=kill@{1 + n * OFTEN.get(point, 0)}")
                if lives.deaths[point] > n:
                    break
            if life % REST_EVERY == 0:
                lives.rest()
    lives.rest()
    missed = {name for name in points if not lives.deaths[name]}
    assert not missed, f"never died at {missed}: {lives.deaths}"
    report(lives, figure, f"{len(points)} failpoints")


@pytest.mark.parametrize("group", range(GROUPS))
def test_killed_at_random_moments(home: Bullpen, figure: Figure, group: int) -> None:
    """Whatever the server was at; one death in ten comes while it gets up from the last."""
    seed = new_seed()
    lives, rng = Lives(home, seed), random.Random(seed)
    while lives.deaths.total() < KILLS // GROUPS:
        again = lives.deaths.total() % 10 == 8
        lives.live(f"{rng.choice(sorted(AT_START))}=kill" if again else "")
        if lives.deaths.total() % REST_EVERY == 0:
            lives.rest()
    lives.rest()
    assert all(lives.totals[how] for how in ("done", "cancelled", "interrupted")), lives.totals
    in_recovery = sum(lives.deaths[name] for name in AT_START)
    report(lives, figure, f"{lives.deaths['random']:,} at random, {in_recovery} in recovery")


def report(lives: Lives, figure: Figure, where: str) -> None:
    total, kills = lives.totals, lives.deaths.total()
    at = f"in {kills:,} kills, {where}"
    accept = f"p50 {_ms(lives.accept_s, 50)}, p99 {_ms(lives.accept_s, 99)}"
    cancel = f"p50 {_ms(lives.cancel_s, 50)}, p99 {_ms(lives.cancel_s, 99)}"
    ends = ", ".join(f"{total[how]:,} {how}" for how in ("done", "cancelled", "interrupted"))
    figure("R-01", "KILL", f"0 of {total['accepted']:,} accepted prompts lost {at}; 202 {accept}")
    figure("R-02", "KILL", f"0 doubles of {total['retries']:,} retries with a key {at}")
    figure("R-04", "KILL", f"0 of {total['cancels']:,} answered cancels lost {at}; answered {cancel}")
    figure("R-06", "KILL", f"0 missing, 0 double ends {at}: {ends}")
    figure(
        "R-07",
        "KILL",
        f"0 of {total['effects']:,} effects repeated {at}, {total['unknown']} reported as unknown",
    )
    figure("R-08", "KILL", f"0 of {total['writes']:,} answered writes lost {at}")
    figure("R-13", "KILL", f"0 gaps, 0 doubles in {total['events']:,} events {at}")


def _ms(values: list[float], percent: int) -> str:
    if len(values) < 2:
        return "of one" if values else "of none"
    cut = statistics.quantiles(values, n=100)[percent - 1]
    return f"{cut * 1000:.1f} ms"
