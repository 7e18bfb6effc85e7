"""Memory that was freed goes back to the system. All of this does nothing where there is no glibc or no /proc."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """glibc keeps what was freed in pieces between others, and a server that was busy once would stay large for ever.

    Takes a few milliseconds, without Python's lock.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


def resident_bytes() -> int:
    """What the process takes now; 0 where nobody can tell."""
    try:
        with open("/proc/self/statm", "rb") as told:
            return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # Windows knows no library without a name.
        return None
    return trim
