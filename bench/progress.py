"""The progress line: which of how many measurements, what it is at, how long it has taken and may take.

In a terminal one line is written over and over; a file or a pipe gets a plain line for each step.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TextIO

CLEAR = "\r\x1b[K"


class Progress:
    def __init__(
        self, out: TextIO, expected_s: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out = out
        self._expected_s = expected_s
        self._clock = clock
        self._began = clock()
        self._live = out.isatty()
        self._doing = ""

    def step(self, doing: str) -> None:
        """Something new is being done."""
        self._doing = doing
        if self._live:
            self.tick()
        else:
            self._write(f"{self._times()}  {doing}\n")

    def tick(self) -> None:
        """Time has passed: a terminal shows how much."""
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            self._write(CLEAR + f"{self._times()}  {self._doing}"[:width])

    def end(self) -> None:
        if self._live:
            self._write(CLEAR)

    def _times(self) -> str:
        return f"{minutes(self._clock() - self._began)} of about {minutes(self._expected_s)}"

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def minutes(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02}"
