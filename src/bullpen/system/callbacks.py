"""Timers and callbacks of the event loop may begin tasks, whatever else is installed."""

from __future__ import annotations

import sys
import threading

_here = threading.local()


def allow_tasks_from_callbacks() -> None:
    """Say for this thread that its loop is asyncio's, until everybody who asked for it takes it back.

    anyio asks sniffio which loop runs, if another package has brought that along, and sniffio only knows what it sees inside a task: in
    what follows a commit, or in a timer, no task group could begin anything.
    """
    _here.asked = getattr(_here, "asked", 0) + 1
    _announce("asyncio")


def take_back() -> None:
    """The loop may end now: what is said after its end keeps anyio from running another."""
    _here.asked -= 1
    if not _here.asked:
        _announce(None)


def _announce(loop: str | None) -> None:
    sniffio = sys.modules.get("sniffio")
    if sniffio is not None:
        sniffio.thread_local.name = loop
