"""Patterns and parsers are bounded: nothing that a model, a page or a project sends takes for ever (X-26)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Figure

MOST_CALLS = 100_000
"""Calls of functions on the loop's own thread for one bomb: some hundredths of a second on any machine."""

MOST_MEMORY_KB = 64 * 1024


@pytest.mark.timeout(400)
def test_no_bomb_goes_off(figure: Figure, tmp_path: Path) -> None:
    """Each is answered within the processor time that all have together, most of it in threads and other processes."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.hostile.bombs"],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    bombs = report["bombs"]
    assert len(bombs) >= 100
    assert {name: b["calls"] for name, b in bombs.items() if b["calls"] > MOST_CALLS} == {}
    grown_kb = report["rss_after"] - report["rss_before"]
    assert grown_kb < MOST_MEMORY_KB
    longest = max(bombs, key=lambda name: float(bombs[name]["stall_s"]))
    stalls = sorted(float(bomb["stall_s"]) for bomb in bombs.values())
    figure(
        "X-26",
        "ATTK",
        f"{len(bombs)} bombs answered; RSS +{grown_kb / 1024:.0f} MiB; loop silent for {stalls[len(stalls) // 2] * 1000:.0f} ms "
        f"(median), {stalls[-1] * 1000:.0f} ms (longest, {longest})",
    )
