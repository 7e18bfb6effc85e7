"""A process that undoes what a turn did, to be killed in the middle of it.

Usage: python -m tests.faults.kill.undoer DIRECTORY. It plays the turn, says so, and undoes it. `BULLPEN_FAILPOINTS` says where it ends.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
from tests.files.yard import Yard, open_yard

from bullpen.system import failpoints

TURN = 1


def prepare(yard: Yard) -> None:
    """What stood there before the turn."""
    for name in ("changed", "dir/gone", "kind"):
        yard.put(name, f"{name} before\n" * 500)
    (yard.root / "changed").chmod(0o750)
    (yard.root / "link").symlink_to("changed")


def play(yard: Yard) -> None:
    """What the turn does."""
    yard.put("changed", "changed after\n" * 500)
    (yard.root / "dir/gone").unlink()
    (yard.root / "dir").rmdir()
    (yard.root / "kind").unlink()
    yard.put("kind/inside", "made\n")
    yard.put("new/file", "made\n")
    (yard.root / "link").unlink()
    (yard.root / "link").symlink_to("new/file")


async def main(directory: Path) -> None:
    async with open_yard(directory) as yard:
        prepare(yard)
        await yard.command(TURN, lambda: play(yard))
        print("played", flush=True)
        failpoints.arm(os.environ)
        await yard.undo(TURN)
    print("undone", flush=True)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
