"""What was freed goes back to the system."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bullpen.system.memory import give_back, keep_large_apart

PIECES = 40_000

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator, and /proc to look at it")


def test_large_pieces_go_back_at_once() -> None:
    """Also after others have come and gone, and with small ones that stay between them."""
    keep_large_apart()
    for _ in range(3):
        before = resident_kib()
        pieces = [(b"x" * 2**20, bytes(100)) for _ in range(40)]
        small = [piece for _, piece in pieces]
        assert resident_kib() > before + 30 * 1024
        del pieces
        assert resident_kib() < before + 5 * 1024
        assert len(small) == 40


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
