"""`./bench/run` as a person types it, as far as nothing has to be measured; and the sampler of its profile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.bench.conftest import SAMPLE

from bench import profile, sampler
from bench.profile import Spent

ROOT = Path(__file__).parent.parent.parent


def run(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "bench" / "run", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "BULLPEN_BENCH_DRIVER": "/nonexistent/bin/driver", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_has_examples_and_names_the_suites(tmp_path: Path) -> None:
    done = run("--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("Examples:", "--quick", "--against", "--charts-only", "c2  32 sessions at once", "profile"):
        assert words in done.stdout


def test_charts_come_from_kept_results_without_a_driver(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "results")
    done = run("--charts-only", "--out", tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "6 pass, 2 short, 1 not run" in done.stdout
    assert sorted(file.name for file in (tmp_path / "charts").iterdir()) == [
        "cpu.svg",
        "growth.svg",
        "latency.svg",
        "targets-deltas.svg",
        "turns.svg",
    ]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--charts-only", "--out", "nowhere"], 1, "bench: no results in"),
        (["--against", "nowhere.json"], 1, "bench: nowhere.json: No such file or directory"),
        (["--suites", "c"], 1, "bench: BULLPEN_BENCH_DRIVER=/nonexistent/bin/driver: not a built driver"),
        (["--suites", "c,zz"], 2, "no suite zz; there are a, b, c"),
    ],
)
def test_an_error_is_one_line_with_the_next_step(
    tmp_path: Path, arguments: list[str], status: int, said: str
) -> None:
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == status
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_the_sampler_runs_the_command_and_leaves_its_stacks(tmp_path: Path) -> None:
    out = tmp_path / "stacks.json"
    done = subprocess.run(
        [sys.executable, "-P", sampler.__file__, out, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("bullpen ")
    assert isinstance(json.loads(out.read_bytes()), dict)


def test_a_stack_names_its_functions_from_the_outermost() -> None:
    stack = sampler.stack(sys._getframe())
    assert stack.split(";")[-1].endswith(
        "test_command.py:test_a_stack_names_its_functions_from_the_outermost"
    )


def test_functions_are_listed_by_their_own_time() -> None:
    """A function that calls itself is counted once."""
    stacks = {"main;work": 2_000_000_000, "main;work;work": 1_000_000_000, "main": 500_000_000}
    assert profile.by_function(stacks) == [Spent("work", 3.0, 3.0), Spent("main", 0.5, 3.5)]
