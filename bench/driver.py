"""The load driver that all servers of this wire share: how it is built, and how one measurement with it runs.

It lies beside the checkout and is read-only, so it is copied to build/bench/driver and built there. Its floor program
and its compare.py belong to it and are used from the same place.
"""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.errors import BenchError
from bench.progress import Progress
from bench.results import Result, load

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "bench"
BUILD = ROOT / "build" / "bench"

SUITES = ("a", "b", "c", "c2", "d", "e", "f", "g", "h", "h2", "i", "j", "k")
"""In the order in which the driver runs them."""

MEANINGS = {
    "a": "cold start and idle memory",
    "b": "workspaces, sessions, idle clients",
    "c": "prompts one after another",
    "c2": "32 sessions at once",
    "d": "one answer to many clients",
    "e": "growth with message length",
    "f": "cancel",
    "g": "a client that stops reading",
    "h": "100 sessions flat out",
    "h2": "100 sessions at 50 tokens/s",
    "i": "tool calls",
    "j": "a long session",
    "k": "bursts of prompts",
}

TICK_S = 1.0
STARTING_S = 2.0
"""Until the fake model and the server are up."""


@dataclass(frozen=True)
class Driver:
    """A built driver: `home` is the copy of the shared directory that holds it in bin/."""

    home: Path

    @property
    def binary(self) -> Path:
        return self.home / "bin" / "driver"

    @property
    def compare(self) -> Path:
        return self.home / "compare.py"

    @property
    def reference(self) -> Path:
        return self.home / "reference.json"


@dataclass(frozen=True)
class Measurement:
    """One run of the driver against one server."""

    name: str
    suites: Sequence[str]
    repeat: int
    deltas: bool = False
    peer: str = "v1"
    command: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def arguments(self, out: Path) -> list[str]:
        return [
            *("-peer", self.peer, "-label", self.name, "-suites", ",".join(self.suites)),
            *("-repeat", str(self.repeat), "-out", str(out)),
            *(["-deltas"] if self.deltas else []),
            *(["-cmd", self.command] if self.command else []),
        ]

    @property
    def expected_s(self) -> float:
        return STARTING_S + sum(expected_s(suite, self.repeat) for suite in self.suites)


def expected_s(suite: str, repeat: int) -> float:
    """Seconds that a suite takes with a quick server: most of it is the model's pace, which no server changes."""
    once = {"b": 10, "c": 1, "c2": 2, "d": 50, "e": 18, "f": 3, "g": 20, "h": 3, "h2": 7, "j": 10, "k": 40}
    each = {"a": 6, "d": 10, "i": 2}
    return once.get(suite, 0) + each.get(suite, 0) * repeat


def ready(environment: Mapping[str, str] = os.environ, shared: Path = SHARED) -> Driver:
    """The driver that BULLPEN_BENCH_DRIVER names, or one built from the shared directory."""
    named = environment.get("BULLPEN_BENCH_DRIVER")
    return existing(Path(named)) if named else built(shared)


def existing(binary: Path) -> Driver:
    driver = Driver(binary.resolve().parent.parent)
    if not os.access(binary, os.X_OK) or not driver.compare.is_file():
        raise BenchError(
            f"BULLPEN_BENCH_DRIVER={binary}: not a built driver; name DIR/bin/driver in a copy of the shared bench directory"
        )
    return driver


def built(shared: Path) -> Driver:
    if not (shared / "go.mod").is_file():
        raise BenchError(
            f"the load driver is missing: expected at {relative(shared)}; put it there, or name a built one with BULLPEN_BENCH_DRIVER=DIR/bin/driver"
        )
    for command, package in (("go", "golang-go"), ("cc", "gcc")):
        if shutil.which(command) is None:
            raise BenchError(
                f"building the load driver needs {command} (Go 1.21 or newer and a C compiler); install it: apt-get install {package}"
            )
    driver = Driver(BUILD / "driver")
    copy(shared, driver.home)
    driver.binary.parent.mkdir(exist_ok=True)
    compile_with(["go", "build", "-o", "bin/", "./..."], driver)
    compile_with(["cc", "-O2", "-o", "bin/fanout", "limits/fanout.c"], driver)
    return driver


def copy(source: Path, target: Path) -> None:
    """Contents alone: the modes of the source say read-only."""
    for file in source.rglob("*"):
        if file.is_file() and "bin" not in file.parts:
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)


def compile_with(command: list[str], driver: Driver) -> None:
    # The toolchain that is installed has to do: Go would otherwise fetch another one.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    done = subprocess.run(
        command, cwd=driver.home, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise BenchError(f"'{' '.join(command)}' failed in {relative(driver.home)}: {last}")


def relative(path: Path) -> str:
    return os.path.relpath(path, ROOT)


def bullpen_command() -> str:
    """This checkout's server, as the driver's -cmd wants it."""
    return f"'{Path(sys.prefix) / 'bin' / 'bullpen'}' server --host unix://{{socket}}"


def measure(driver: Driver, measurement: Measurement, progress: Progress, title: str) -> Result:
    """Run to the end and give the result. Raises BenchError with the driver's last words when it fails."""
    # A short path, because unix sockets lie in it; ours, so that nothing stays behind after an interrupt.
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as scratch:
        out = Path(scratch) / "result.json"
        with subprocess.Popen(
            [driver.binary, *measurement.arguments(out)],
            env={**os.environ, **measurement.environment, "TMPDIR": scratch},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            try:
                last = follow(process, measurement, progress, title)
            finally:
                process.terminate()
        if process.returncode != 0:
            raise BenchError(f"{title}: the driver failed ({last or 'it said nothing'})")
        return load(out)


def follow(process: subprocess.Popen[str], measurement: Measurement, progress: Progress, title: str) -> str:
    """Show how far the driver is until it has ended; its last line."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=forward, args=(process, lines), daemon=True).start()
    waiting = [suite for suite in SUITES if suite in measurement.suites]
    last = ""
    progress.step(doing(title, waiting))
    while True:
        try:
            line = lines.get(timeout=TICK_S)
        except queue.Empty:
            progress.tick()
            continue
        if line is None:
            process.wait()
            return last
        last = line.rstrip()
        suite, colon, said = last.partition(":")
        # A server that died is started again and its suite repeated.
        if colon and suite in waiting and not said.startswith(" the server ended"):
            waiting = waiting[waiting.index(suite) + 1 :]
            progress.step(doing(title, waiting))
        elif last.startswith("  ") and waiting:
            progress.step(f"{doing(title, waiting)}: {last.strip()}")


def forward(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        lines.put(line)
    lines.put(None)


def doing(title: str, waiting: Sequence[str]) -> str:
    """What the driver is at: the first suite that it has not reported."""
    if not waiting:
        return f"{title}: ending"
    return f"{title}: {waiting[0]} ({MEANINGS[waiting[0]]})"
