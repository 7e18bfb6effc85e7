"""Ends a connection on which nothing meaningful has come for too long.

A cancel scope with a deadline around each read would cost half as much as the read itself. Here is one timer
per connection, and moving the deadline is one assignment: when the timer goes off too early, it is set anew.
When it is right, the socket is shut down, which the pending read sees as the end of the stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any

import httpx2

BUSY_S = 0.5
"""How soon to look again when the reader is busy with events and so is not waiting for the host."""


class Patience:
    """Use as a context manager. Set `reading` around reads, call `renew` when something came."""

    def __init__(self, response: httpx2.Response, deadline: float) -> None:
        self.reading = False
        self.expired = False
        self._loop = asyncio.get_running_loop()
        self._deadline = deadline
        self._socket: Any = response.extensions["network_stream"].get_extra_info("socket")
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Patience:
        self._timer = self._loop.call_at(self._deadline, self._look)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def renew(self, limit_s: float) -> None:
        self._deadline = self._loop.time() + limit_s
        if self._timer is not None and self._timer.when() > self._deadline:
            self._timer.cancel()
            self._timer = self._loop.call_at(self._deadline, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        if now < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        elif not self.reading:
            self._timer = self._loop.call_at(now + BUSY_S, self._look)
        else:
            self.expired = True
            _shut_down(self._socket)


def _shut_down(connection: Any) -> None:
    """End the connection beneath whoever reads from it. The descriptor is doubled, for its owner will close it."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.shutdown(socket.SHUT_RDWR)
