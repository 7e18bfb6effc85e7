"""One answer for all who ask at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Coalesced(Generic[T]):
    """Does some work once for everybody who asked before it began. Nobody gets an answer that was begun before they
    asked, so what they changed just before is in it."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[T] | None = None
        self._tasks: set[asyncio.Task[T]] = set()
        """The loop itself holds tasks only weakly."""

    async def __call__(self) -> T:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._run())
            self._tasks.add(self._next)
            self._next.add_done_callback(self._tasks.discard)
        # Who stops waiting does not stop it for the others.
        return await asyncio.shield(self._next)

    async def _run(self) -> T:
        async with self._turn:
            self._next = None
            return await self._work()
