"""One data directory, open: its lock, its database, its growing text, and the feeds of its workspaces."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from bullpen.broker.facts import Fact
from bullpen.broker.feed import Feed
from bullpen.schema.events import frame
from bullpen.store import asks, log, prompts, rules, trash, workspaces
from bullpen.store.database import Database, open_database
from bullpen.store.growth import Growth
from bullpen.store.sqlite import Rewound
from bullpen.store.tx import Tx, Work
from bullpen.system.clock import Clock
from bullpen.system.tally import Tally

T = TypeVar("T")
DATABASE_NAME = "bullpen.db"


class Store:
    """What the engine and the workspaces use. Made by `open_store`."""

    def __init__(self, directory: Path, clock: Clock, tally: Tally) -> None:
        self.directory = directory
        self.clock = clock
        self.tally = tally
        self.feeds: dict[str, Feed] = {}
        self.on_rewind: dict[str, Callable[[], None]] = {}
        """Per open workspace: what to do when its log lost numbers that were shown, and the state with them."""
        self._database: Database
        self.growth: Growth

    def attach_database(self, database: Database) -> None:
        self._database = database
        self.growth = Growth(database, self.clock, self._is_followed)

    async def write(
        self,
        work: Work[T],
        *,
        durable: bool = True,
        reserved: bool = False,
        then: Callable[[T], None] | None = None,
    ) -> T:
        """One transaction; see `Database.write`."""
        return await self._database.write(work, durable=durable, reserved=reserved, then=then)

    def submit(self, work: Work[T], *, durable: bool) -> asyncio.Future[T]:
        """The same without waiting for it. What is handed in later is committed later, or together."""
        return self._database.submit(work, durable=durable)

    async def read(self, work: Work[T]) -> T:
        return await self._database.read(work)

    async def open_feed(self, workspace: str, path: str) -> Feed:
        """Count the opening of the workspace's log and begin to fan it out."""
        opened = await self.write(lambda tx: workspaces.open_log(tx, workspace, path))
        feed = Feed(
            epoch=opened.epoch,
            head=opened.head,
            generation=opened.generation,
            frame=frame,
            clock=self.clock.monotonic,
        )
        self.feeds[workspace] = feed
        await self.write(functools.partial(_prune, workspace=workspace), durable=False)
        return feed

    def close_feed(self, workspace: str) -> None:
        feed = self.feeds.pop(workspace, None)
        self.on_rewind.pop(workspace, None)
        if feed is not None:
            feed.close()

    def publish(self, facts: list[Fact]) -> None:
        """Hand committed facts to the feeds of the workspaces that are open."""
        start = 0
        for end in range(1, len(facts) + 1):
            if end == len(facts) or facts[end].workspace != facts[start].workspace:
                feed = self.feeds.get(facts[start].workspace)
                if feed is not None:
                    feed.publish(facts[start:end])
                start = end

    def rewind(self, rewound: list[Rewound]) -> None:
        """The disk failed and took unsynced commits with it: everybody begins anew from what is left."""
        for workspace, epoch, head in rewound:
            feed = self.feeds.get(workspace)
            if feed is not None:
                feed.rewind(epoch, head)
            if workspace in self.on_rewind:
                self.on_rewind[workspace]()

    def _is_followed(self, workspace: str) -> bool:
        feed = self.feeds.get(workspace)
        return feed is not None and feed.has_deltas


async def _prune(tx: Tx, workspace: str) -> None:
    for prune in (log.prune, prompts.prune, asks.prune, rules.prune, trash.prune):
        await prune(tx, workspace)


@asynccontextmanager
async def open_store(
    directory: Path,
    *,
    clock: Clock,
    attached: Callable[[str, str], int],
    vfs: str = "",
    kind: type[Database] = Database,
    tally: Tally | None = None,
) -> AsyncIterator[Store]:
    """The database of a directory whose lock the caller holds. Raises a `StoreError` when it cannot be
    opened."""
    store = Store(directory, clock, Tally() if tally is None else tally)
    database = await open_database(
        directory / DATABASE_NAME,
        clock=clock,
        attached=attached,
        publish=store.publish,
        rewind=store.rewind,
        vfs=vfs,
        kind=kind,
        tally=store.tally,
    )
    store.attach_database(database)
    try:
        yield store
    finally:
        store.growth.close()
        await database.close()
