"""Runs the `bullpen` command and writes down where its CPU time went: python -P bench/sampler.py OUT server --host …

The kernel rings each time the process has used another 2 ms of CPU. At each ring the stacks of all threads are looked
at, and to each is booked what the kernel has counted for its thread since the last ring. Looking at fixed times
instead would mostly see a thread where it waits. (The short work of a helper thread is still often booked to the place
where it waits for more: then only its sum is right.) This imports nothing of the bench: it lives in the server.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

INTERVAL_S = 0.002


class Sampler:
    def __init__(self) -> None:
        self.stacks: Counter[str] = Counter()
        self._spent: dict[int, int] = {}

    def __enter__(self) -> Sampler:
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _look(self, _signal: int, here: FrameType | None) -> None:
        frames: dict[int, FrameType | None] = {**sys._current_frames(), threading.get_ident(): here}
        for thread, frame in frames.items():
            try:
                spent = time.clock_gettime_ns(time.pthread_getcpuclockid(thread))
            except OSError:
                continue  # It has just ended.
            used = spent - self._spent.get(thread, spent)
            self._spent[thread] = spent
            if used:
                self.stacks[stack(frame)] += used


def stack(frame: FrameType | None) -> str:
    """The functions from the outermost to the one that runs, as flame graphs want them."""
    names = []
    while frame is not None:
        code = frame.f_code
        names.append(f"{place(code.co_filename)}:{code.co_qualname}")
        frame = frame.f_back
    return ";".join(reversed(names))


def place(filename: str) -> str:
    """A file by its path inside its package."""
    for mark in (
        "/bullpen/",
        "/site-packages/",
        f"/python{sys.version_info.major}.{sys.version_info.minor}/",
    ):
        _, found, inside = filename.rpartition(mark)
        if found:
            return f"bullpen/{inside}" if mark == "/bullpen/" else inside
    return Path(filename).name


def main() -> None:
    out = Path(sys.argv[1])
    sys.argv = ["bullpen", *sys.argv[2:]]
    from bullpen.cli.main import main as bullpen  # noqa: PLC0415 - with the arguments that it is to see

    sampler = Sampler()
    try:
        with sampler:
            bullpen()
    finally:
        out.write_text(json.dumps(sampler.stacks))


if __name__ == "__main__":
    main()
