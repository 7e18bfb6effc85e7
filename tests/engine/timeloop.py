"""An event loop whose clock the test can put forward: timers of half a minute, tested in no time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

REAL_LIMIT_S = 30.0
"""Threads and disks keep their own time; on a busy machine they need some of it."""


class TimeLoop(asyncio.SelectorEventLoop):
    """Real time plus what `advance` added."""

    def __init__(self) -> None:
        self._ahead_s = 0.0
        super().__init__()

    def time(self) -> float:
        return super().time() + self._ahead_s

    async def advance(self, seconds: float) -> None:
        """Put the clock forward, and let what is due then happen."""
        self._ahead_s += seconds
        for _ in range(3):
            await asyncio.sleep(0)


async def advance(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TimeLoop)
    await loop.advance(seconds)


async def pass_until(wanted: Callable[[], bool], step_s: float = 0.5) -> None:
    """Put the clock forward until it has happened; threads get real time to do their part."""
    end = time.monotonic() + REAL_LIMIT_S
    while not wanted():
        assert time.monotonic() < end, "it never happened"
        await advance(step_s)
        await asyncio.to_thread(time.sleep, 0.001)
