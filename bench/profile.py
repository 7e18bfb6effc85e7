"""Where the server's CPU time goes under a fixed load: the sampler's stacks as a table of functions."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import driver
from bench.driver import Driver, Measurement
from bench.errors import BenchError
from bench.progress import Progress
from bench.results import Result
from bench.targets import aligned

SAMPLER = Path(__file__).with_name("sampler.py")
STACKS = driver.BUILD / "stacks.json"
FOLDED = driver.BUILD / "profile.folded"
"""One line for each stack, as flame graph programs read it."""

IMPORTS = "importlib._bootstrap"
"""Marks the stacks of a start, which is measured on its own (suite a)."""


@dataclass(frozen=True)
class Spent:
    """CPU time of one function: in itself, and with what it calls. In seconds."""

    function: str
    own_s: float
    total_s: float


def measurement(suites: Sequence[str], *, deltas: bool) -> Measurement:
    command = f"'{sys.executable}' -P '{SAMPLER}' '{STACKS}' server --host unix://{{socket}}"
    return Measurement("Bullpen, profiled", suites, 1, deltas=deltas, command=command)


def run(built: Driver, load: Measurement, progress: Progress) -> tuple[Result, dict[str, int]]:
    """The result under the profiler, and nanoseconds by stack."""
    STACKS.unlink(missing_ok=True)
    STACKS.parent.mkdir(parents=True, exist_ok=True)
    result = driver.measure(built, load, progress, load.name)
    if not STACKS.exists():
        raise BenchError("the profiled server left no stacks: it was killed before it could end")
    stacks: dict[str, int] = json.loads(STACKS.read_bytes())
    served = {stack: spent for stack, spent in stacks.items() if IMPORTS not in stack}
    FOLDED.write_text("".join(f"{stack} {spent // 1000}\n" for stack, spent in served.items()))
    return result, served


def by_function(stacks: Mapping[str, int]) -> list[Spent]:
    """The functions, those with the most time of their own first. Recursion counts once."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for stack, spent in stacks.items():
        functions = stack.split(";")
        own[functions[-1]] += spent
        for function in set(functions):
            total[function] += spent
    return [
        Spent(function, own[function] / 1e9, spent / 1e9)
        for function, spent in sorted(total.items(), key=lambda item: (-own[item[0]], -item[1]))
    ]


def table(spent: Sequence[Spent], top: int) -> str:
    all_s = sum(row.own_s for row in spent) or 1.0
    lines = [
        [row.function, f"{row.own_s / all_s:.1%}", f"{row.total_s / all_s:.1%}", f"{row.own_s:.2f} s"]
        for row in spent[:top]
    ]
    return aligned([["function", "own", "with calls", "own"], *lines]) + f"\n\n{all_s:.2f} s of CPU in all"
