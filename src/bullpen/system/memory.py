"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """glibc keeps what was freed in pieces between others, and a server that was busy once would stay large for ever.

    Takes a few milliseconds, without Python's lock. Does nothing where there is no glibc.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # Windows knows no library without a name.
        return None
    return trim
