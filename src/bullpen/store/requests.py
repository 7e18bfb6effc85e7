"""What is asked of a database: a unit of work on its way to a thread, and its outcome on the way back."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from typing import Any, TypeAlias

from bullpen.store.tx import Work

MAX_BATCH = 256
"""Units in one commit; bounds how long the first of them waits for the last."""


class Request:
    """A unit of work and who waits for it. The thread that runs it notes `result` or `error`."""

    __slots__ = ("age", "durable", "error", "future", "reserved", "result", "then", "work")

    def __init__(
        self,
        work: Work[Any],
        future: asyncio.Future[Any],
        durable: bool,
        reserved: bool,
        then: Callable[[Any], None] | None,
        age: int,
    ) -> None:
        self.work = work
        self.future = future
        self.durable = durable
        self.reserved = reserved
        self.then = then
        self.age = age
        """How often logs had gone back, as far as its caller knew."""
        self.result: Any = None
        self.error: BaseException | None = None

    def answer(self) -> None:
        """Tell whoever waits, on the loop; a caller that was cancelled waits no more."""
        if self.future.cancelled():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


Inbox: TypeAlias = "queue.SimpleQueue[Request | None]"
"""Requests in the order in which they came; a None ends the thread that takes them."""


def take_all(inbox: Inbox, patience_s: float | None) -> list[Request | None]:
    """Everything that waits, at least one unless patience ends; a None ends the list and the loop."""
    taken: list[Request | None] = []
    try:
        taken.append(inbox.get(timeout=patience_s))
        while taken[-1] is not None and len(taken) < MAX_BATCH:
            taken.append(inbox.get_nowait())
    except queue.Empty:
        pass
    return taken
