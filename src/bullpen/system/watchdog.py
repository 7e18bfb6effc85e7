"""Watches that the event loop is never held, and names whoever holds it.

A thread asks the loop a question a few times a second and measures how long the answer takes: what any client
would have waited at that moment. When no answer has come after `STALL_S`, the thread looks at what the loop's
thread is doing and says so in the log, once a minute for each place. An idle server pays four wake-ups a second.
Being awake anyway, the thread also sees to it now and then that freed memory goes back to the system.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from bisect import bisect_left
from pathlib import Path
from types import FrameType

from bullpen.system.memory import give_back
from bullpen.system.tally import Tally

log = logging.getLogger("bullpen.watchdog")

PERIOD_S = 0.25
STALL_S = 0.1
"""The promise: 999 of 1,000 answers come within this time."""

QUIET_S = 60.0
"""How long a place that was named is not named again."""

GIVE_BACK_S = 30.0

MOST_PLACES = 100
"""Places remembered; a server that is held in more than these has other troubles."""

BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)

_LOOP_FILES = tuple(
    str(Path(asyncio.__file__).with_name(name)) for name in ("runners.py", "events.py", "base_events.py")
)
_OURS = str(Path(__file__).parents[1])


class Watchdog:
    """Use as a context manager in the loop's own thread. Its figures are gauges of the tally."""

    def __init__(self, tally: Tally, *, period_s: float = PERIOD_S, stall_s: float = STALL_S) -> None:
        self._tally = tally
        self._period_s = period_s
        self._stall_s = stall_s
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stop = threading.Event()
        self._answered = threading.Event()
        self._answered_at = 0.0
        self._named_at: dict[str, float] = {}
        self._longest_s = 0.0
        self.histogram = [0] * (len(BOUNDS_MS) + 1)
        """How many answers took at most each of `BOUNDS_MS`; the last are those that took longer."""
        self._thread = threading.Thread(target=self._watch, name="bullpen-watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._tally.gauges |= {
            "loop_answers": lambda: sum(self.histogram),
            "loop_p50_ms": lambda: self.percentile_ms(0.5),
            "loop_p99_ms": lambda: self.percentile_ms(0.99),
            "loop_p999_ms": lambda: self.percentile_ms(0.999),
            "loop_longest_ms": lambda: round(self._longest_s * 1000),
        }
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Does not wait for the thread: it may be waiting for the loop, which is here."""
        self._stop.set()
        self._answered.set()

    def percentile_ms(self, share: float) -> int:
        """Within how many milliseconds this share of the answers came, rounded up to one of `BOUNDS_MS`."""
        counts = list(self.histogram)
        wanted = share * sum(counts)
        seen = 0
        for bound, count in zip(BOUNDS_MS, counts, strict=False):
            seen += count
            if seen >= wanted:
                return bound
        return max(BOUNDS_MS[-1], round(self._longest_s * 1000))

    # The watching thread

    def _watch(self) -> None:
        gave_back_at = time.monotonic()
        while not self._stop.wait(self._period_s):
            self._answered.clear()
            asked_at = time.monotonic()
            if asked_at - gave_back_at > GIVE_BACK_S:
                gave_back_at = asked_at
                give_back()
                asked_at = time.monotonic()
            try:
                self._loop.call_soon_threadsafe(self._answer)
            except RuntimeError:  # The loop has ended.
                return
            if not self._answered.wait(self._stall_s):
                self._name_offender()
                self._answered.wait()
            if self._stop.is_set():
                return
            self._note(self._answered_at - asked_at)

    def _note(self, took_s: float) -> None:
        self.histogram[bisect_left(BOUNDS_MS, took_s * 1000)] += 1
        self._longest_s = max(self._longest_s, took_s)

    def _name_offender(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        place = _place_of(frame) if frame is not None else None
        if place is None:  # The loop runs nothing: the process itself was held, and the loop is waking up.
            return
        self._tally["loop_stalls"] += 1
        now = time.monotonic()
        if now - self._named_at.get(place, -QUIET_S) < QUIET_S or len(self._named_at) >= MOST_PLACES:
            return
        self._named_at[place] = now
        log.warning("the event loop is held for more than %.0f ms by %s", self._stall_s * 1000, place)

    # The event loop

    def _answer(self) -> None:
        self._answered_at = time.monotonic()
        self._answered.set()


def _place_of(innermost: FrameType) -> str | None:
    """The innermost line of our own code that the loop runs, and where it has got to; None when it runs nothing."""
    frames: list[traceback.FrameSummary] = []
    for frame, line in traceback.walk_stack(innermost):
        code = frame.f_code
        if code.co_filename in _LOOP_FILES:
            break
        frames.append(traceback.FrameSummary(code.co_filename, line, code.co_name, lookup_line=False))
    if not frames:
        return None
    ours = next((frame for frame in frames if frame.filename.startswith(_OURS)), frames[0])
    place = f"{ours.filename}:{ours.lineno} in {ours.name}"
    return place if ours is frames[0] else f"{place}, which is in {frames[0].name} ({frames[0].filename})"
