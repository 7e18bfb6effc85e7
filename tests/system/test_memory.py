"""What was freed goes back to the system."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bullpen.system.memory import give_back

PIECES = 40_000


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator, and /proc to look at it")
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
