"""Who waits for which answer.

The store decides an ask; this only wakes the tool that waits for it. An ask that dies with its turn has
nobody to wake: the turn's scope is cancelled.
"""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

A = TypeVar("A")


class Pending(Generic[A]):
    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[A]] = {}

    def expect(self, ask_id: str) -> asyncio.Future[A]:
        """To be called before the ask is stored, so that no answer can come too early."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting[ask_id] = future
        return future

    def resolve(self, ask_id: str, answer: A) -> None:
        future = self._waiting.pop(ask_id, None)
        if future is not None and not future.done():
            future.set_result(answer)

    def forget(self, ask_id: str) -> None:
        self._waiting.pop(ask_id, None)
