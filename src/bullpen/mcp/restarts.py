"""How often a server that went away is started again: a server that dies all the time says so instead of burning the
machine."""

from __future__ import annotations

from collections import deque

from bullpen.system.clock import Clock

RESTARTS = 5
RESTARTS_S = 180.0


class Restarts:
    """The restarts of one server that still count."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun: deque[float] = deque()

    def begin(self) -> int:
        """Which one in a row this is, from 0; -1 when there have been too many."""
        now = self._clock.monotonic()
        while self._begun and self._begun[0] <= now - RESTARTS_S:
            self._begun.popleft()
        if len(self._begun) >= RESTARTS:
            return -1
        self._begun.append(now)
        return len(self._begun) - 1

    def forgive(self) -> None:
        self._begun.clear()
