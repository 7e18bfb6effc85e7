"""An undo that SIGKILL hits is taken up again at the next opening: every path is as before the turn, or untouched, and never half."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.kill.undoer import TURN, play, prepare
from tests.files.yard import open_yard, tree_of

POINTS = ("undo-begun", "undo-restoring", "undo-restored", "file-writing", "file-written", "file-swapping")
KILLS = [("undo-restoring", 2), *((point, count) for point in POINTS for count in range(1, sized(2, 9)))]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def undo(directory: Path, failpoint: str) -> subprocess.CompletedProcess[str]:
    env = {"BULLPEN_FAILPOINTS": failpoint, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "tests.faults.kill.undoer", str(directory)]
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)


@pytest.mark.anyio
async def test_an_undo_that_was_killed_is_finished(tmp_path: Path, figure: Figure) -> None:
    async with open_yard(tmp_path / "told") as yard:
        prepare(yard)
        before = yard.tree()
        play(yard)
        after = yard.tree()
    died = 0
    for point, count in KILLS:
        directory = tmp_path / f"{point}-{count}"
        ended = undo(directory, f"{point}=kill@{count}")
        assert ended.stdout.startswith("played")
        died += ended.returncode == -signal.SIGKILL
        for path, what in tree_of(directory / "project").items():
            # What was being written lies beside, under a name that nobody looks at.
            is_whole = what in (before.get(path), after.get(path)) or "/.bullpen-" in f"/{path}"
            assert is_whole, f"{path} is half, after {point}@{count}"
        async with open_yard(directory) as yard:
            assert yard.tree() == before, f"{point}@{count}"
            (turn,) = await yard.undoing.turns("s", before=0, limit=5)
            assert (turn.turn, turn.state) == (TURN, "undone")
            await yard.redo()
            assert yard.tree() == after
    assert died >= len(POINTS)
    figure("R-27", "KILL", f"0 of {died} undos left half done by a kill")
