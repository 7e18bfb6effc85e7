"""What tools cost: fifty calls of each, and searches of a large tree beside ripgrep alone."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.driver import Driver
from bench.progress import Progress
from bench.room import Server, model_of, server_before
from bench.targets import aligned
from bullpen.system.ripgrep import program

CALLS = 50
SEARCHES = 5

DIRECTORIES, FILES = 1_000, 100
"""So many directories with so many files each."""

TEXT = "".join(f"line {n} of a file that says little\n" for n in range(20))

SMALL = {
    "view": {"file_path": "small/a.txt", "offset": "%d"},
    "ls": {"path": "small", "ignore": ["%d.md"]},
    "glob": {"pattern": "small/*%d.txt"},
    "grep": {"pattern": "hello %d", "path": "small"},
    "write": {"file_path": "small/new-%d.txt", "content": "x"},
    "bash": {"command": "true", "description": "call %d"},
}


@dataclass
class Figures:
    call_ms: dict[str, float] = field(default_factory=dict)
    searches_ms: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By what was searched for: with the tool, and with ripgrep alone."""


def measure(driver: Driver, progress: Progress) -> Figures:
    figures = Figures()
    with model_of(driver) as model, server_before(model) as server:
        server.attach()
        small = server.root / "small"
        small.mkdir()
        for n in range(10):
            (small / f"{n}.txt").write_text("hello\n" * 20)
        (small / "a.txt").write_text("hello\n" * 100)
        for name, arguments in SMALL.items():
            progress.step(f"{CALLS} calls of {name}")
            # The number has to be one in JSON too.
            told = json.dumps(arguments).replace('"%d"', "%d")
            server.call_s(name, told, 1)
            figures.call_ms[name] = server.call_s(name, told, CALLS) * 1000
        progress.step(f"a tree of {DIRECTORIES * FILES:,} files")
        tree = _tree(server.root / "tree")
        progress.step("searches")
        figures.searches_ms = _searches(server, tree)
    return figures


def _tree(root: Path) -> Path:
    for d in range(DIRECTORIES):
        directory = root / f"d{d % 10}" / f"e{d}"
        directory.mkdir(parents=True)
        for f in range(FILES):
            text = TEXT if f or d % 20 else TEXT + "the needle\n"
            (directory / f"file{f}.{'py' if f % 10 == 0 else 'txt'}").write_text(text)
    return root


def _searches(server: Server, tree: Path) -> dict[str, tuple[float, float]]:
    """Each call asks for something a little different, as loops are stopped."""
    wanted = {
        "grep, 50 hits": ("grep", {"pattern": "the needle|nothing %d"}, ["-n", "the needle"]),
        "grep, a hit in each file": ("grep", {"pattern": "line 7 of|nothing %d"}, ["-n", "line 7 of"]),
        "glob, 10,000 of them": ("glob", {"pattern": "**/*.{py,x%d}"}, ["--files", "-g", "*.py"]),
        "glob, all of them": ("glob", {"pattern": "**/*[!%d]"}, ["--files"]),
    }
    found = {}
    for name, (tool, arguments, alone) in wanted.items():
        told = json.dumps(arguments | {"path": str(tree)})
        server.call_s(tool, told, 1)
        found[name] = (server.call_s(tool, told, SEARCHES) * 1000, _ripgrep_ms(alone, tree))
    return found


def _ripgrep_ms(arguments: list[str], tree: Path) -> float:
    def once() -> float:
        began = time.perf_counter()
        subprocess.run(
            [program(), "--no-config", *arguments, "."], cwd=tree, stdout=subprocess.PIPE, check=True
        )
        return time.perf_counter() - began

    return sum(once() for _ in range(SEARCHES)) / SEARCHES * 1000


def table(figures: Figures) -> str:
    calls = [
        ["a call of", "takes"],
        *([name, f"{took:.1f} ms"] for name, took in figures.call_ms.items()),
    ]
    searches = [
        [f"{DIRECTORIES * FILES:,} files", "the tool", "ripgrep alone", ""],
        *(
            [name, f"{ours:.0f} ms", f"{alone:.0f} ms", f"{ours / alone:.2f} ×"]
            for name, (ours, alone) in figures.searches_ms.items()
        ),
    ]
    return f"{aligned(calls)}\n\n{aligned(searches)}"
