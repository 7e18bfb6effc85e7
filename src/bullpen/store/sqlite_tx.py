"""A unit of work on a SQLite connection: what it is given, and how the thread that owns it drives it to its end."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import apsw

from bullpen.broker.facts import Fact
from bullpen.store.tx import Row, Value
from bullpen.system.clock import Clock

T = TypeVar("T")

LARGE = 64 * 1024
"""In characters or bytes."""


class SqliteTx:
    """`Tx` on a connection; its coroutines never suspend."""

    def __init__(
        self, connection: apsw.Connection, now: int, steady: int, attached: Callable[[str, str], int]
    ) -> None:
        self._connection = connection
        self.now = now
        self.steady = steady
        self.attached = attached
        self.facts: list[Fact] = []

    async def run(self, sql: str, *values: Value) -> int:
        # A statement that is kept for the next time also keeps its copy of what it was given.
        is_large = any(isinstance(value, str | bytes) and len(value) > LARGE for value in values)
        self._connection.execute(_placeholders(sql), values, can_cache=not is_large)
        return self._connection.changes()

    async def rows(self, sql: str, *values: Value) -> list[Row]:
        return self._connection.execute(_placeholders(sql), values).fetchall()

    async def row(self, sql: str, *values: Value) -> Row | None:
        found = self._connection.execute(_placeholders(sql), values).fetchall()
        return found[0] if found else None

    def publish(self, fact: Fact) -> None:
        self.facts.append(fact)


class Units:
    """Begins the units of one database: what time it is by either clock, and who is attached.

    The steady clock goes on from the last event that is stored, so the hours in which nobody had the database open
    do not count; a new database begins with the time of day.
    """

    def __init__(
        self, connection: apsw.Connection, clock: Clock, attached: Callable[[str, str], int]
    ) -> None:
        self._clock = clock
        self._attached = attached
        last = connection.execute(
            "SELECT max(e.at) FROM workspaces AS w JOIN events AS e ON e.workspace = w.id AND e.seq = w.head"
        ).fetchall()[0][0]
        self._steady_from = (clock.time() if last is None else float(str(last))) - clock.monotonic()

    def on(self, connection: apsw.Connection) -> SqliteTx:
        steady = int(self._steady_from + self._clock.monotonic())
        return SqliteTx(connection, int(self._clock.time()), steady, self._attached)


@functools.lru_cache(maxsize=1024)
def _placeholders(sql: str) -> str:
    """`$1` as PostgreSQL writes it becomes `?1`."""
    return re.sub(r"\$(\d+)", r"?\1", sql)


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a unit of work to its end here and now."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # StopIteration's value is untyped
    coroutine.close()
    raise RuntimeError("a unit of work waited for something other than its transaction")
