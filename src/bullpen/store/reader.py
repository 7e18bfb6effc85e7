"""A connection that reads, shared between the thread that uses it and the writer, which renews it after a failing disk."""

from __future__ import annotations

import threading

import apsw

from bullpen.store.sqlite import close


class Reader:
    """A reader's connection. Who holds the lock uses it, or takes it away."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.lock = threading.Lock()
        self.connection: apsw.Connection | None = connection

    def close(self) -> None:
        if self.connection is not None:
            close(self.connection)
            self.connection = None
