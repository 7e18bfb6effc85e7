"""What was freed goes back to the system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bullpen.system.memory import give_back

PIECES = 40_000

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator, and /proc to look at it")


LARGE_ONES = """
from pathlib import Path
from bullpen.system.memory import keep_large_apart

def resident_kib():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])

keep_large_apart()
small = []
for _ in range(3):
    before = resident_kib()
    pieces = [(b"x" * 2**20, bytes(1_000)) for _ in range(40)]
    small += [piece for _, piece in pieces]
    between = resident_kib()
    del pieces
    print(between - before, resident_kib() - before)
"""


def test_large_pieces_go_back_at_once() -> None:
    """Also after others have come and gone, and with small ones that stay between them. In a process that has freed nothing yet."""
    said = subprocess.run(
        [sys.executable, "-c", LARGE_ONES], capture_output=True, text=True, check=True
    ).stdout
    for line in said.splitlines():
        taken, kept = map(int, line.split())
        assert taken > 30 * 1024 > 5 * 1024 > kept


def test_pieces_between_others_go_back() -> None:
    pieces = [bytes(2_000) for _ in range(PIECES)]
    held = pieces[::50]
    del pieces
    before = resident_kib()
    give_back()
    assert resident_kib() < before - PIECES  # Half of it at the least: a piece is some 2 KiB.
    assert len(held) == PIECES / 50


def resident_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])
