"""A dialog that nobody called comes up while somebody types: until the keyboard was quiet, no key means an answer."""

from __future__ import annotations

import time
from collections.abc import Callable

QUIET_S = 0.4
"""Whoever types presses the next key sooner than this."""

LONGEST_S = 1.5
"""Whoever presses keys for so long after it came up means the dialog."""


class Quiet:
    """Whether keys count by now."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = self._last = clock()

    @property
    def is_over(self) -> bool:
        now = self._clock()
        return now - self._last >= QUIET_S or now - self._since >= LONGEST_S

    def counts(self, pressed_at: float) -> bool:
        """Whether a key that was pressed then counts. One that does not begins the wait anew."""
        if pressed_at - self._last >= QUIET_S or pressed_at - self._since >= LONGEST_S:
            return True
        self._last = pressed_at
        return False
