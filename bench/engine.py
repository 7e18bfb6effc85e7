"""What the engine itself costs: one very long answer, many tool calls, and the start, with the model's own time left out.

The driver measures many clients; here is one client and one turn, so that what is seen is the turn's.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.driver import Driver
from bench.progress import Progress
from bench.room import Server, model_of, server_before
from bench.targets import aligned

TOKENS = 100_000
CALLS = 50
STARTS = 5


@dataclass
class Figures:
    version_ms: float = 0.0
    python_ms: float = 0.0
    healthy_ms: float = 0.0
    token_us: float = 0.0
    call_cpu_ms: float = 0.0
    call_ms: float = 0.0
    resident_mib: list[float] = field(default_factory=list)
    """Before the long answer, at each tenth of it, and at its end."""


def measure(driver: Driver, progress: Progress) -> Figures:
    figures = Figures()
    progress.step("starts")
    bullpen = str(Path(sys.prefix) / "bin/bullpen")
    figures.version_ms = _quickest_ms([bullpen, "--version"])
    figures.python_ms = _quickest_ms([sys.executable, "-c", ""])
    with model_of(driver) as model, server_before(model) as server:
        figures.healthy_ms = server.healthy_ms
        server.attach()
        server.turn("BENCH[tokens=10 rate=0]")
        progress.step(f"one answer of {TOKENS:,} tokens")
        _long_answer(server, figures)
        progress.step(f"{CALLS} tool calls")
        _tool_calls(server, figures)
    return figures


def _long_answer(server: Server, figures: Figures) -> None:
    seen = figures.resident_mib
    seen.append(server.resident_mib())
    before = server.cpu_s()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(1.0):
            seen.append(server.resident_mib())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        server.turn(f"BENCH[tokens={TOKENS} rate=10000]")
    finally:
        over.set()
        watcher.join()
    seen.append(server.resident_mib())
    figures.token_us = (server.cpu_s() - before) / TOKENS * 1e6


def _tool_calls(server: Server, figures: Figures) -> None:
    file = server.root / "f.txt"
    file.write_text("hello\n" * 20)
    before = server.cpu_s()
    figures.call_ms = server.call_s("view", f'{{"file_path": "{file}", "offset": %d}}', CALLS) * 1000
    figures.call_cpu_ms = (server.cpu_s() - before) / CALLS * 1000


def table(figures: Figures) -> str:
    first, last, most = figures.resident_mib[0], figures.resident_mib[-1], max(figures.resident_mib)
    rows = [
        (
            "bullpen --version",
            f"{figures.version_ms:.0f} ms",
            f"a bare interpreter {figures.python_ms:.0f} ms",
        ),
        ("server, from nothing to a healthy reply", f"{figures.healthy_ms:.0f} ms", ""),
        ("CPU per streamed token", f"{figures.token_us:.0f} µs", f"{TOKENS:,} tokens, one client"),
        (
            "CPU per tool call",
            f"{figures.call_cpu_ms:.1f} ms",
            f"{figures.call_ms:.1f} ms of time, the model's included",
        ),
        ("memory over the long answer", f"{first:.0f} → {last:.0f} MiB", f"at most {most:.0f}"),
    ]
    return aligned([list(row) for row in rows])


def _quickest_ms(command: list[str]) -> float:
    def once() -> float:
        began = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began

    return min(once() for _ in range(STARTS)) * 1000
