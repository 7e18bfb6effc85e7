"""What the screen costs: start, a key, an answer that streams, a long session; beside Textual's own demo and widgets."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.driver import Driver
from bench.own_widgets import MESSAGES, PER_S, TOKENS
from bench.progress import Progress
from bench.room import Server, model_of, server_before
from bench.screen import Screen, seated
from bench.targets import aligned

BULLPEN = str(Path(sys.prefix) / "bin/bullpen")
STARTS = 5
KEYS = "the quick brown fox jumps over the lazy dog and then over it once more " * 2
STEADY_S = 10.0
"""So long an answer is watched while it streams."""


@dataclass
class Figures:
    rows: list[tuple[str, str, str]] = field(default_factory=list)
    """What was measured, ours, and the same elsewhere."""

    def add(self, what: str, ours: str, beside: str = "") -> None:
        self.rows.append((what, ours, beside))


def measure(driver: Driver, progress: Progress) -> Figures:
    figures = Figures()
    with model_of(driver) as model, server_before(model) as server:
        server.attach()
        env = {"PATH": os.environ["PATH"], "HOME": str(server.root.parent)}
        ours = [BULLPEN, "attach", str(server.root), "--host", server.host]
        progress.step("bullpen --version")
        bare = [sys.executable, "-S", "-c", "pass"]
        figures.add(
            "bullpen --version", _ms(_run_s([BULLPEN, "--version"])), f"{_ms(_run_s(bare))} bare Python"
        )
        progress.step("first paint")
        demo = [sys.executable, "-m", "textual"]
        beside = _best(lambda: _paint_s(demo, env, server.root, "Textual"))
        warm = _best(lambda: _paint_s(ours, env, server.root, "all keys"))
        figures.add("first paint, warm server", _ms(warm), f"{_ms(beside)} Textual's demo")
        attached = _best(lambda: _paint_s(ours, env, server.root, "connected"))
        figures.add("attached, warm server", _ms(attached))
        progress.step("first paint without a server")
        cold, attached = _cold()
        figures.add("first paint, no server yet", _ms(cold))
        figures.add("attached, no server yet", _ms(attached))
        if peer := os.environ.get("BULLPEN_BENCH_PEER"):
            progress.step(f"{peer}")
            _peer(figures, peer)
        progress.step("keys")
        _keys(figures, ours, env, server)
        progress.step("an answer that streams")
        _stream(figures, ours, env, server)
        progress.step(f"a session of {MESSAGES:,} messages")
        _long(figures, ours, env, server)
    return figures


def _peer(figures: Figures, program: str) -> None:
    """Another program of this kind: its version, its first words, its memory."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home}
        name = Path(program).name
        figures.add(f"{name} --version", _ms(_run_s([program, "--version"])))
        with seated([program], env, Path(home)) as screen:
            figures.add(f"{name}: first words", _ms(screen.until_anything()))
            screen.rest(1)
            figures.add(f"{name}: memory", f"{screen.resident_mib():.0f} MiB")


def _keys(figures: Figures, ours: Sequence[str], env: Mapping[str, str], server: Server) -> None:
    with seated(ours, env, server.root) as screen:
        screen.until("connected")
        mine = _pressed(screen)
    with _beside("typing", env, server.root) as screen:
        screen.rest(1)
        theirs = _pressed(screen)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        figures.add(
            f"a key until it is painted, {name}", _ms(_at(mine, share)), f"{_ms(_at(theirs, share))} TextArea"
        )


def _stream(figures: Figures, ours: Sequence[str], env: Mapping[str, str], server: Server) -> None:
    with seated(ours, env, server.root) as screen:
        screen.until("connected")
        screen.press(f"BENCH[tokens={TOKENS} rate={PER_S}]")
        screen.press("\r")
        mine = _steady(screen)
    with _beside("streaming", env, server.root) as screen:
        theirs = _steady(screen)
    for name, place in ((f"CPU at {PER_S} tokens/s", 0), (f"frames a second at {PER_S} tokens/s", 1)):
        figures.add(name, mine[place], f"{theirs[place]} Markdown.get_stream")


def _long(figures: Figures, ours: Sequence[str], env: Mapping[str, str], server: Server) -> None:
    session = server.long_session(MESSAGES)
    with seated([*ours, "--session", session], env, server.root) as screen:
        entered = screen.until("connected", "tokens")
        screen.rest(1)
        mine = screen.resident_mib()
    with _beside("many", env, server.root) as screen:
        theirs_s = screen.until("message 1")
        screen.rest(1)
        theirs = screen.resident_mib()
    figures.add(f"{MESSAGES:,} messages: shown after", _ms(entered), f"{_ms(theirs_s)} as many Static")
    figures.add(f"{MESSAGES:,} messages: memory", f"{mine:.0f} MiB", f"{theirs:.0f} MiB as many Static")


def _pressed(screen: Screen) -> list[float]:
    screen.rest(0.5)
    return sorted(screen.press(key) for key in KEYS)


def _steady(screen: Screen) -> tuple[str, str]:
    """CPU and frames while an answer streams and nothing else happens."""
    screen.watch(2)
    cpu, frames, began = screen.cpu_s(), screen.frames, time.perf_counter()
    screen.watch(STEADY_S)
    took = time.perf_counter() - began
    return f"{(screen.cpu_s() - cpu) / took * 100:.0f} %", f"{(screen.frames - frames) / took:.0f}"


def _cold() -> tuple[float, float]:
    """In a home where nothing runs: until something is painted, and until one is attached."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home}
        with seated([BULLPEN], env, Path(home)) as screen:
            painted = screen.until("all keys")
            attached = screen.until("connected")
        subprocess.run(
            [BULLPEN, "stop", "--force"],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        return painted, attached


@contextmanager
def _beside(work: str, env: Mapping[str, str], cwd: Path) -> Iterator[Screen]:
    command = [sys.executable, "-m", "bench.own_widgets", work]
    with seated(command, {**env, "PYTHONPATH": str(Path(__file__).parents[1])}, cwd) as screen:
        yield screen


def _paint_s(command: Sequence[str], env: Mapping[str, str], cwd: Path, words: str) -> float:
    with seated(command, env, cwd) as screen:
        return screen.until(words)


def _run_s(command: Sequence[str]) -> float:
    def once() -> float:
        began = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began

    return _best(once)


def _best(once: Callable[[], float]) -> float:
    return min(once() for _ in range(STARTS))


def _at(times: Sequence[float], share: float) -> float:
    return times[min(int(len(times) * share), len(times) - 1)]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def table(figures: Figures) -> str:
    return aligned([["the screen", "ours", "beside it"], *(list(row) for row in figures.rows)])
