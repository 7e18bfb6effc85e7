"""The stores a server has open: its own for its whole life, others for as long as a workspace uses them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bullpen.engine.recovery import recover
from bullpen.store.database import Database
from bullpen.store.lock import DataLock
from bullpen.store.store import Store, open_store
from bullpen.system.clock import Clock
from bullpen.system.tally import Tally


class _Open:
    """`users` counts the workspaces; `opening` is held while the directory is opened or closed."""

    def __init__(self) -> None:
        self.users = 0
        self.opening = asyncio.Lock()
        self.store: Store | None = None
        self.stack = AsyncExitStack()


class Stores:
    def __init__(
        self,
        *,
        clock: Clock,
        attached: Callable[[str, str], int],
        kind: type[Database],
        tally: Tally,
    ) -> None:
        self._clock = clock
        self._attached = attached
        self._kind = kind
        self._tally = tally
        self._open: dict[Path, _Open] = {}

    def subscriptions(self) -> int:
        """How many streams read from the feeds of all stores."""
        stores = [entry.store for entry in self._open.values() if entry.store is not None]
        return sum(len(feed.subscriptions) for store in stores for feed in store.feeds.values())

    def feeds(self) -> int:
        return sum(len(entry.store.feeds) for entry in self._open.values() if entry.store is not None)

    @asynccontextmanager
    async def use(self, directory: Path, *, lock: DataLock | None = None) -> AsyncIterator[Store]:
        """The store of a data directory; opened by its first user, closed by its last.

        Raises `DataDirectoryInUse` when another process has it, or a `StoreError`.
        """
        entry = self._open.setdefault(directory, _Open())
        entry.users += 1
        try:
            async with entry.opening:
                if entry.store is None:
                    entry.store = await self._open_store(entry, directory, lock)
            yield entry.store
        finally:
            entry.users -= 1
            if not entry.users:
                await self._close_store(entry, directory)

    async def _close_store(self, entry: _Open, directory: Path) -> None:
        """Whoever comes meanwhile waits and opens it anew: the lock is ours until the database is closed."""
        async with entry.opening:
            if entry.users:
                return
            entry.store = None
            try:
                await entry.stack.aclose()
            finally:
                entry.stack = AsyncExitStack()
                if not entry.users:
                    del self._open[directory]

    async def _open_store(self, entry: _Open, directory: Path, lock: DataLock | None) -> Store:
        async with AsyncExitStack() as stack:
            if lock is None:
                lock = await asyncio.to_thread(DataLock, directory)
                stack.callback(lock.release)
            opened = open_store(
                directory, clock=self._clock, attached=self._attached, kind=self._kind, tally=self._tally
            )
            store = await stack.enter_async_context(opened)
            await recover(store)
            entry.stack = stack.pop_all()
            return store
