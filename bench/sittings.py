"""One sitting: all that is measured in one run, on one machine, and can therefore be set side by side.

Bullpen is measured in both forms of its stream, and so is the floor, with the same pace of sending: it shows what
Python and the sockets cost before any feature. The reference is measured too when the environment names its binary;
otherwise its kept figures are taken.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import driver, results, targets
from bench.driver import Driver, Measurement
from bench.progress import Progress
from bench.results import Result
from bench.targets import Row

FLOOR_SUITES = tuple(suite for suite in driver.SUITES if suite != "i")
"""The floor has no tools."""

FLOOR_WHOLE_SUITES = ("d", "e", "h2")
"""Where it matters in which form text is sent."""

FILES = {
    "deltas": "deltas.json",
    "whole": "whole.json",
    "floor": "floor.json",
    "floor_whole": "floor-whole.json",
    "reference": "reference.json",
}
TARGETS = "targets.json"


@dataclass(frozen=True)
class Sitting:
    """What was not measured is None."""

    deltas: Result | None = None
    whole: Result | None = None
    floor: Result | None = None
    floor_whole: Result | None = None
    reference: Result | None = None
    targets: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """By the form of the stream: deltas, whole."""


def plan(suites: Sequence[str], repeat: int, environment: Mapping[str, str]) -> dict[str, Measurement]:
    """What is measured, by the name under which it is kept. A measurement without suites is left out."""
    ours = driver.bullpen_command()
    python = {"PYTHON_BIN": sys.executable}
    all_of_it = {
        "deltas": Measurement("Bullpen", suites, repeat, deltas=True, command=ours),
        "whole": Measurement("Bullpen", suites, repeat, command=ours),
        # Bullpen gathers text for 10 ms while somebody follows by deltas, for 33 ms otherwise; the floor does the same.
        "floor": Measurement(
            "floor",
            [suite for suite in FLOOR_SUITES if suite in suites],
            repeat,
            deltas=True,
            peer="floor",
            environment={**python, "FLOOR_ARGS": "--uvloop --ms 10"},
        ),
        "floor_whole": Measurement(
            "floor",
            [suite for suite in FLOOR_WHOLE_SUITES if suite in suites],
            repeat,
            peer="floor",
            environment={**python, "FLOOR_ARGS": "--uvloop --ms 33"},
        ),
    }
    if peer := environment.get("BULLPEN_BENCH_PEER") or environment.get("CRUSH_BIN"):
        all_of_it["reference"] = peer_measurement(peer, suites, repeat)
    return {name: measurement for name, measurement in all_of_it.items() if measurement.suites}


def peer_measurement(peer: str, suites: Sequence[str], repeat: int) -> Measurement:
    """`peer` is the reference's binary, or the command line of any server of this wire, with {socket} or {port}."""
    if "{" in peer:
        return Measurement(Path(shlex.split(peer)[0]).name, suites, repeat, command=peer)
    return Measurement(Path(peer).name, suites, repeat, environment={"CRUSH_BIN": peer})


def measure(
    built: Driver, measurements: Mapping[str, Measurement], directory: Path, progress: Progress
) -> Sitting:
    """Measure one after another and keep each result as soon as it is there."""
    facts = results.machine()
    for file in (*FILES.values(), TARGETS):
        (directory / file).unlink(missing_ok=True)
    for place, (name, measurement) in enumerate(measurements.items(), 1):
        form = "deltas" if measurement.deltas else "whole messages"
        title = f"[{place}/{len(measurements)}] {measurement.name}, {form}"
        result = driver.measure(built, measurement, progress, title)
        results.save(directory / FILES[name], results.to_keep(result, facts))
    if "reference" not in measurements:
        results.save(directory / FILES["reference"], results.load(built.reference))
    sitting = judged(load(directory), built)
    kept = {form: [row.kept() for row in rows] for form, rows in sitting.targets.items()}
    results.save(directory / TARGETS, kept)
    return sitting


def judged(sitting: Sitting, built: Driver, earlier: Result | None = None) -> Sitting:
    """With the targets; `earlier` is set beside the result that has the same form."""
    floors = {
        "deltas": sitting.floor,
        "whole": {**(sitting.floor or {}), **(sitting.floor_whole or {})} or None,
    }
    rows = {
        form: targets.judge(
            built,
            ours,
            sitting.reference,
            floor=floors[form],
            earlier=earlier if earlier and bool(earlier.get("deltas")) == (form == "deltas") else None,
        )
        for form, ours in (("deltas", sitting.deltas), ("whole", sitting.whole))
        if ours is not None and sitting.reference is not None
    }
    return replace(sitting, targets=rows)


def load(directory: Path) -> Sitting:
    """What is kept there."""
    kept = {name: results.load_if_there(directory / file) for name, file in FILES.items()}
    rows = directory / TARGETS
    judged_before = json.loads(rows.read_bytes()) if rows.exists() else {}
    return Sitting(
        **kept, targets={form: [Row(**row) for row in listed] for form, listed in judged_before.items()}
    )
