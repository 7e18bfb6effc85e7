"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

LARGE = 256 * 1024
"""What takes this many bytes is a long text or a big file, and is soon done with."""

M_MMAP_THRESHOLD = -3


def keep_large_apart() -> None:
    """Large pieces are had from the system one by one and go back to it when they are freed.

    glibc begins so too, but takes every large piece that is freed as a sign that more will come, and soon has them all
    among the small ones. Does nothing where there is no glibc.
    """
    if (mallopt := _of_glibc("mallopt")) is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE)


def give_back() -> None:
    """glibc keeps what was freed in pieces between others, and a server that was busy once would stay large for ever.

    Takes a few milliseconds, without Python's lock. Does nothing where there is no glibc.
    """
    if (trim := _of_glibc("malloc_trim")) is not None:
        trim(0)


@cache
def _of_glibc(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):  # Windows knows no library without a name.
        return None
