"""The sub-agents that are at work, so that each can be stopped and spoken to alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import anyio


class Run(Protocol):
    def steer(self) -> None: ...


class Children:
    """By their sessions. `on_end` is told of each that has ended: somebody may have spoken to it too late."""

    def __init__(self) -> None:
        self.on_end: Callable[[str], None] = lambda _: None
        self._running: dict[str, tuple[anyio.CancelScope, Run]] = {}

    @contextmanager
    def running(self, session: str, run: Run) -> Iterator[anyio.CancelScope]:
        with anyio.CancelScope() as scope:
            self._running[session] = (scope, run)
            try:
                yield scope
            finally:
                del self._running[session]
                self.on_end(session)

    def __contains__(self, session: str) -> bool:
        return session in self._running

    def cancel(self, session: str) -> bool:
        """Stop one; the turn that it works for goes on. False when there is none."""
        if session in self._running:
            self._running[session][0].cancel()
        return session in self._running

    def steer(self, session: str) -> None:
        if session in self._running:
            self._running[session][1].steer()
