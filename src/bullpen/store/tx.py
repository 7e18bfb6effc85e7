"""What the nouns' SQL runs on: one transaction.

A unit of work is an `async def work(tx) -> T`. On SQLite it is driven to its end by the writer's thread
and must await nothing but the transaction; on a networked engine the same function runs on the loop.
Whatever it publishes leaves only if it commits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from bullpen.broker.facts import Fact

T = TypeVar("T")

Value = str | bytes | int | float | None
Row = tuple[Any, ...]


class Tx(Protocol):
    now: int
    """Seconds since the epoch, the same for the whole transaction."""

    steady: int
    """Seconds by a clock that nobody sets: it runs while the database is open and goes on where it stopped. For
    what is kept for a time, which a step of the wall clock must neither shorten nor lengthen."""

    attached: Callable[[str, str], int]
    """How many clients look at a session: (workspace, session) → count."""

    def run(self, sql: str, *values: Value) -> Awaitable[int]:
        """Execute a statement; gives back the number of rows it changed."""
        ...

    def rows(self, sql: str, *values: Value) -> Awaitable[list[Row]]: ...

    def row(self, sql: str, *values: Value) -> Awaitable[Row | None]: ...

    def publish(self, fact: Fact) -> None:
        """Hand this to the broker once the transaction is committed."""
        ...


Work = Callable[[Tx], Coroutine[Any, Any, T]]
