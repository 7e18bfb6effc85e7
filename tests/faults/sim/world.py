"""A world whose time, chance and disk belong to a seed.

* **Time** jumps to the next timer when nothing is left to do, so hours pass in milliseconds. The loop's own clock is the
  monotonic one; the wall clock is the same plus an offset that faults may move.
* **Chance** is one `random.Random`; the kernel's randomness (ids, epochs, jitter) is drawn from it as well.
* **Threads** there are none: what the product gives to a thread happens later on the loop, after a moment drawn from
  the seed. The database's writer and readers are the product's; only when they get to run is decided here.

The same seed gives the same world, event for event. What is told to `World.tell` is its trace.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar
from unittest import mock

from anyio._backends import _asyncio as anyio_asyncio

from bullpen.broker import tail
from bullpen.broker.facts import Fact
from bullpen.broker.subscription import Subscription
from bullpen.errors import StoreBusy, StoreError, StoreFull
from bullpen.store import log
from bullpen.store.database import Database
from bullpen.store.requests import MAX_BATCH, Request

T = TypeVar("T")

BIRTH = 1_800_000_000.0
"""The wall clock's time when a world begins."""

TAILS_BYTES = (1_000, 8_000, tail.TAIL_BYTES)
PAGES = (3, 20, log.PAGE)
"""How much of the past is kept in memory, and how much of it is read at once, in these worlds."""

MOST_ROUNDS = 400_000
"""A world that turns more often than this, some hundred times the usual, goes round in circles."""


class World:
    """One seed's universe."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.loop = VirtualLoop(self.rng)
        self.clock = VirtualClock(self.loop)
        self.tally: Counter[str] = Counter()
        self.trace: list[str] = []
        self._digest = hashlib.sha256()

    @property
    def now(self) -> float:
        return self.loop.time()

    def tell(self, who: str, what: str) -> None:
        """Note something that happened."""
        line = f"{self.now:12.6f} {who}: {what}"
        self.trace.append(line)
        self._digest.update(line.encode())

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def chance(self, of_a_hundred: float) -> bool:
        return self.rng.random() * 100 < of_a_hundred

    def moment(self) -> float:
        """A short while, seldom a long one."""
        return self.rng.random() ** 4 * (2.0 if self.chance(3) else 0.02)


@contextmanager
def seeded(world: World) -> Iterator[None]:
    """What the kernel and the allocator decide elsewhere comes from the seed: random bytes, and the order in which sets of
    objects are walked through, which depends on where in memory they happen to lie. So do two sizes whose borders a short
    story would not meet."""
    numbers = itertools.count(1)
    source = random.Random(world.seed ^ 0x5EED)

    class NumberedScope(anyio_asyncio.CancelScope):
        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self.number = next(numbers)

        def __hash__(self) -> int:
            return self.number

    def numbered(self: Any) -> int:
        """By the order in which they are first put into a set."""
        if "number" not in self.__dict__:
            self.number = next(numbers)
        return int(self.number)

    state = random.getstate()
    random.seed(world.seed)
    try:
        with (
            mock.patch.object(os, "urandom", source.randbytes),
            mock.patch.object(random, "_urandom", source.randbytes),
            mock.patch.object(anyio_asyncio, "CancelScope", NumberedScope),
            mock.patch.object(Subscription, "__hash__", numbered),
            mock.patch.object(tail, "TAIL_BYTES", source.choice(TAILS_BYTES)),
            mock.patch.object(log, "PAGE", source.choice(PAGES)),
        ):
            yield
    finally:
        random.setstate(state)


# Time


class _Timers:
    """In the place of the selector: waiting is putting the clock forward."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise AssertionError("nothing is left that could ever happen")
        self._loop.pass_time(max(timeout, 0.0))
        return []

    def close(self) -> None:
        """There is nothing to close."""


class _NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set depends on when it was made, not on where."""

    _numbers = itertools.count(1)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.number = next(self._numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without a world outside: no sockets, no threads, no real time."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._now = 0.0
        self._rounds = 0
        self._rng = rng
        self._selector = _Timers(self)
        self._clock_resolution = 1e-9
        _NumberedTask._numbers = itertools.count(1)
        self.set_task_factory(lambda loop, coro, **more: _NumberedTask(coro, loop=loop, **more))
        self.set_exception_handler(self._unexpected)
        self.unexpected: list[str] = []

    def time(self) -> float:
        return self._now

    def pass_time(self, seconds: float) -> None:
        self._rounds += 1
        if self._rounds > MOST_ROUNDS:
            raise AssertionError("the world goes round in circles")
        self._now += seconds

    def run_in_executor(  # type: ignore[override]  # The types of the arguments are of no interest here.
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as exc:
                future.set_exception(exc)

        self.call_later(self._rng.random() * 0.003, work)
        return future

    def _unexpected(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.unexpected.append(f"{context['message']}: {context.get('exception')!r}")

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Nobody waits outside."""


class VirtualClock:
    """Both clocks. A suspended machine is a wall clock that jumps: the monotonic clock of Linux stands still meanwhile."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.offset = 0.0

    def time(self) -> float:
        return BIRTH + self.offset + self._loop.time()

    def monotonic(self) -> float:
        return self._loop.time()


# Disk


class Disk:
    """The disk under one life of a server: how long it takes, when it refuses, and that it is gone when the life is."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_lost = False
        self.refuses: Callable[[], StoreError] | None = None
        self.databases: list[VirtualDatabase] = []

    def database(self) -> type[Database]:
        """The class that the product opens its database as."""

        class OnThisDisk(VirtualDatabase):
            disk = self

        return OnThisDisk

    def refuse(self, seconds: float) -> None:
        """Be busy or full for a while."""
        self.refuses = self.world.rng.choice([StoreBusy, StoreFull])
        self.world.loop.call_later(seconds, self.relent)

    def relent(self) -> None:
        self.refuses = None

    def lose(self) -> None:
        """Nothing more is committed, and nobody hears of what was."""
        self.is_lost = True
        for database in self.databases:
            database.drop()


class VirtualDatabase(Database):
    """The product's database, driven by the world instead of threads.

    A commit takes all that waits when its moment comes; the news of it arrives a moment later still, and a crash between
    the two is the crash between a commit and its answer.
    """

    disk: Disk

    def _start(self) -> None:
        self._writes = _Inbox(self._soon)  # type: ignore[assignment]  # All that is asked of it is `put`.
        self._reads = _Inbox(self._soon_read)  # type: ignore[assignment]
        self._waiting: list[Request] = []
        self._told_at = 0.0
        self._under_way = 0
        self.disk.databases.append(self)

    def _enqueue(self, *args: Any, **more: Any) -> asyncio.Future[Any]:
        if not self.disk.is_lost:
            return super()._enqueue(*args, **more)
        lost: asyncio.Future[Any] = self._loop.create_future()
        lost.set_exception(StoreError("the disk is gone"))
        return lost

    def _soon(self, request: Request) -> None:
        self._waiting.append(request)
        if len(self._waiting) == 1:
            self._loop.call_later(self.disk.world.moment(), self._write_all)

    def _soon_read(self, request: Request) -> None:
        self._under_way += 1
        self._loop.call_later(self.disk.world.moment(), self._read, request)

    def _write_all(self) -> None:
        batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
        if self.disk.is_lost:
            self._abandon(batch)
            return
        if self._waiting:
            self._loop.call_later(self.disk.world.moment(), self._write_all)
        if self.disk.refuses is not None:
            error = self.disk.refuses()
            for request in batch:
                request.error = error
            self._deliver(batch, [])
        else:
            self._write_batch(list(batch))

    def _read(self, request: Request) -> None:
        self._under_way -= 1
        if self.disk.is_lost:
            self._abandon([request])
        else:
            self._run_read(request, self._readers[0].connection)
            self._deliver([request], [])

    def _deliver(self, batch: list[Request], facts: list[Fact]) -> None:
        self._told_at = max(self._loop.time() + self.disk.world.moment() / 4, self._told_at + 1e-6)
        self._under_way += 1
        self._loop.call_at(self._told_at, self._tell, batch, facts)

    def _tell(self, batch: list[Request], facts: list[Fact]) -> None:
        self._under_way -= 1
        if self.disk.is_lost:
            self._abandon(batch)
        else:
            super()._deliver(batch, facts)

    def _abandon(self, batch: list[Request]) -> None:
        """Whoever waits here is dying too, and has to get on with it."""
        for request in batch:
            if not request.future.done():
                request.future.set_exception(StoreError("the disk is gone"))
                request.future.exception()

    async def close(self) -> None:
        if self._closed or self.disk.is_lost:
            return
        self._closed = True
        while (self._waiting or self._under_way) and not self.disk.is_lost:  # noqa: ASYNC110 (time is free here)
            await asyncio.sleep(0.01)
        if not self.disk.is_lost:
            self._leave()
            self.drop()

    def drop(self) -> None:
        self._writer.close()
        for reader in self._readers:
            reader.close()


class _Inbox:
    def __init__(self, put: Callable[[Request], None]) -> None:
        self.put = put

    def get(self) -> NoReturn:
        raise AssertionError("nobody waits at a simulated disk")
