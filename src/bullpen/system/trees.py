"""Finding and signalling all processes below one, on Linux. Part of the launcher, hence nothing but the standard library.

A tree may grow while one looks at it. So it is looked at again and again, a process is read only once, and whole
process groups are signalled where there are some: for a group the kernel lets no fork slip through.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from typing import NamedTuple

ROUNDS = 500
"""How often a tree is looked at before one gives up on stopping it. Each round stops all that the last one did not see."""


class Place(NamedTuple):
    """Where a process stands."""

    parent: int
    group: int


NOWHERE = Place(0, 0)


class Tree:
    """All processes below one."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._known: dict[int, Place] = {}

    def look(self) -> dict[int, Place]:
        """Who is there now. Looks at the whole machine, so the children of a process that ends meanwhile are not missed."""
        now = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        found = {pid: self._known.get(pid) or _place_of(pid) for pid in now}
        for pid, place in found.items():
            if place.parent not in found:
                # Its parent has ended, so it has another by now.
                found[pid] = _place_of(pid)
        self._known = found
        return {pid: found[pid] for pid in self._below(found)}

    def signal(self, number: int) -> None:
        """Send a signal to each of them."""
        _send(self.look(), number)

    def stop(self) -> None:
        """Stop them all, until none is found that was not stopped yet; then none can start another."""
        stopped: set[int] = set()
        for _ in range(ROUNDS):
            fresh = {pid: place for pid, place in self.look().items() if pid not in stopped}
            if not fresh:
                return
            # A child that has not left our own group yet is not reached by it.
            own = os.getpgrp()
            _send({-place.group for place in fresh.values() if place.group not in (0, own)}, signal.SIGSTOP)
            _send(fresh, signal.SIGSTOP)
            stopped |= fresh.keys()

    def kill(self) -> None:
        """End what is there now."""
        self.stop()
        self.signal(signal.SIGKILL)

    def _below(self, found: dict[int, Place]) -> list[int]:
        children: dict[int, list[int]] = {}
        for pid, place in found.items():
            children.setdefault(place.parent, []).append(pid)
        below = list(children.get(self._root, ()))
        for pid in below:
            below += children.get(pid, ())
        return below


def _send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _place_of(pid: int) -> Place:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            # The name in brackets may hold anything, brackets too: count from the last one.
            fields = stat.read().rpartition(b")")[2].split()
            return Place(int(fields[1]), int(fields[2]))
    except (OSError, IndexError):
        return NOWHERE
