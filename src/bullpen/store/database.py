"""The engine: one writer thread and a few readers on a SQLite file.

Promises:

* one connection writes. It takes all work that is waiting, runs it in one transaction and commits once
  (group commit); a unit that fails rolls back alone;
* a unit asked for as durable is on disk (`synchronous=FULL`) before its caller goes on. Others survive a
  killed process, not a power cut, until the next durable commit syncs them too;
* published facts leave in commit order, after the commit; what a caller wants done `then` is done right
  after them, also when the caller has stopped waiting;
* readers see a snapshot and never wait for the writer (WAL);
* a failed sync is never tried again as if nothing had happened: the writer stops, opens the file anew, checks it,
  and only then takes work again;
* on a full disk what ends something is still written, into space set aside; the rest is refused until there is room.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import apsw

from bullpen.broker.facts import Fact
from bullpen.errors import StoreDamaged, StoreError, StoreFailing, StoreFull
from bullpen.store.migrations import MIGRATIONS, Migration
from bullpen.store.reader import Reader
from bullpen.store.requests import Inbox, Request, take_all
from bullpen.store.reserve import Reserve
from bullpen.store.sqlite import DISTRUSTED, Connections, File, Rewound, close, committed_frames, translate
from bullpen.store.sqlite_tx import Units, drive
from bullpen.store.tx import Work
from bullpen.system.callbacks import allow_tasks_from_callbacks, take_back
from bullpen.system.clock import Clock
from bullpen.system.failpoints import hit
from bullpen.system.tally import Tally

T = TypeVar("T")
log = logging.getLogger("bullpen.store")

CHECKPOINT_FRAMES = 1000
"""From this size on (4 MiB) the write-ahead log is brought into the file."""

REOPEN_S = 0.25
"""How long a disk that goes on failing is left alone before the next try."""


class Database:
    """An open database file. Made by `open_database`, ended by `close`."""

    def __init__(
        self,
        file: File,
        connections: Connections,
        *,
        clock: Clock,
        attached: Callable[[str, str], int],
        publish: Callable[[list[Fact]], None],
        rewind: Callable[[list[Rewound]], None],
        tally: Tally,
    ) -> None:
        self.path = file.path
        self._file = file
        self._publish = publish
        self._rewind = rewind
        self._tally = tally
        self._synchronous = ""
        self._frames = 0
        self._use(connections.writer)
        self._readers = [Reader(connection) for connection in connections.readers]
        self._reserve = Reserve(file.path.with_suffix(".reserve"))
        self._shown: dict[str, int] = {}
        """The last number committed of each log."""
        self._trouble: StoreError | None = None
        """Why nothing is taken at present."""
        self._kept: int | None = None
        """How much of the write-ahead log counted when the trouble began."""
        self._age = 0
        self._oldest = 0
        """How often logs went back, as the loop knows it and as the writer does. What was asked for in ignorance
        of it rests on what is gone."""
        self._loop = asyncio.get_running_loop()
        self._writes: Inbox = queue.SimpleQueue()
        self._reads: Inbox = queue.SimpleQueue()
        self._units = Units(self._writer, clock, attached)
        self._closed = False
        self._start()

    def _start(self) -> None:
        """Begin to take work. A simulation replaces the threads by moments of its own."""
        self._writing = threading.Thread(target=self._write_loop, name="bullpen-writer", daemon=True)
        self._reading = [
            threading.Thread(target=self._read_loop, args=(reader,), name=f"bullpen-reader-{n}", daemon=True)
            for n, reader in enumerate(self._readers)
        ]
        for thread in (self._writing, *self._reading):
            thread.start()

    async def write(
        self,
        work: Work[T],
        *,
        durable: bool = True,
        reserved: bool = False,
        then: Callable[[T], None] | None = None,
    ) -> T:
        """Run the unit in a transaction; returns after its commit. Raises what the unit raises, or a
        `StoreError`; then nothing of it was kept.

        `reserved` is for what ends something: on a full disk it may use the space set aside.

        `then` is called on the loop with the unit's result right after the commit. A cancelled caller takes
        back neither: what has to follow a commit belongs there, not behind the `await`."""
        return await self.submit(work, durable=durable, reserved=reserved, then=then)

    def submit(
        self,
        work: Work[T],
        *,
        durable: bool,
        reserved: bool = False,
        then: Callable[[T], None] | None = None,
    ) -> asyncio.Future[T]:
        """The same without waiting for it."""
        return self._enqueue(self._writes, work, durable, reserved, then)

    async def read(self, work: Work[T]) -> T:
        """Run the unit on a snapshot."""
        return await self._enqueue(self._reads, work)

    async def close(self) -> None:
        """Finish what is queued, leave the file marked clean."""
        if self._closed:
            return
        self._closed = True
        try:
            await asyncio.to_thread(self._end)
        finally:
            take_back()

    def _end(self) -> None:
        """The writer goes last, and takes the write-ahead log with it."""
        for _ in self._reading:
            self._reads.put(None)
        for thread in self._reading:
            thread.join()
        self._writes.put(None)
        self._writing.join()

    def _enqueue(
        self,
        to: Inbox,
        work: Work[T],
        durable: bool = False,
        reserved: bool = False,
        then: Callable[[T], None] | None = None,
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            future.set_exception(StoreError("the database is closed"))
        else:
            to.put(Request(work, future, durable, reserved, then, self._age))
        return future

    # Writer thread

    def _write_loop(self) -> None:
        self._reserve.keep()
        is_open = True
        while is_open:
            batch = take_all(self._writes, None if self._trouble is None else REOPEN_S)
            is_open = None not in batch
            self._write_batch(self._admit([request for request in batch if request is not None]))
            self._checkpoint()
            if self._trouble is not None and is_open:
                self._mend()
        self._leave()

    def _admit(self, batch: list[Request]) -> list[Request]:
        """Those that may be tried; the others are turned away."""
        if self._trouble is not None:
            self._refuse(batch, self._trouble)
            return []
        if self._oldest:
            self._refuse(
                [r for r in batch if r.age < self._oldest], StoreFailing(str(self.path), "it lost data")
            )
            batch = [r for r in batch if r.age >= self._oldest]
        if self._reserve.is_lent and not all(r.reserved for r in batch) and not self._reserve.keep():
            self._refuse([r for r in batch if not r.reserved], StoreFull())
            batch = [r for r in batch if r.reserved]
        return batch

    def _write_batch(self, batch: list[Request]) -> None:
        if not batch:
            return
        facts: list[Fact] = []
        try:
            self._commit(batch, facts)
        except _UnitFailed:
            facts = []
        except apsw.FullError as exc:
            is_first = self._run_full(exc)
            self._refuse([r for r in batch if not (is_first and r.reserved)], StoreFull())
            if is_first:
                self._write_batch([r for r in batch if r.reserved])
            return
        except DISTRUSTED as exc:
            self._refuse(batch, self._stop(exc))
            return
        except Exception as exc:
            error = translate(exc, self.path)
            log.error("commit failed: %s", error, exc_info=not isinstance(exc, apsw.Error))
            self._refuse(batch, error)
            return
        for fact in facts:
            if fact.seq:
                self._shown[fact.workspace] = fact.seq
        self._loop.call_soon_threadsafe(self._deliver, batch, facts)

    def _refuse(self, batch: list[Request], error: StoreError) -> None:
        if not batch:
            return
        for request in batch:
            request.error = error
        self._loop.call_soon_threadsafe(self._deliver, batch, [])

    def _commit(self, batch: list[Request], facts: list[Fact]) -> None:
        self._set_synchronous("FULL" if any(r.durable for r in batch) else "NORMAL")
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            for request in batch:
                self._run_unit(request, facts, alone=len(batch) == 1)
            hit("committing")
            self._writer.execute("COMMIT")
            hit("committed")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def _run_unit(self, request: Request, facts: list[Fact], *, alone: bool) -> None:
        request.error = None
        tx = self._units.on(self._writer)
        if not alone:
            self._writer.execute("SAVEPOINT unit")
        try:
            request.result = drive(request.work(tx))
        except (apsw.FullError, *DISTRUSTED):
            raise
        except BaseException as exc:
            if isinstance(exc, apsw.Error) and (alone or not self._writer.in_transaction):
                raise
            request.error = translate(exc, self.path) if isinstance(exc, apsw.Error) else exc
            if alone:
                raise _UnitFailed from exc
            self._writer.execute("ROLLBACK TO unit")
        else:
            facts.extend(tx.facts)
        if not alone:
            self._writer.execute("RELEASE unit")

    def _set_synchronous(self, level: str) -> None:
        if level != self._synchronous:
            self._writer.execute(f"PRAGMA synchronous={level}")
            self._synchronous = level

    def _checkpoint(self) -> None:
        """Bring a write-ahead log that has grown into the file; nobody waits for that."""
        if self._frames < CHECKPOINT_FRAMES or self._trouble is not None:
            return
        try:
            self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.FullError as exc:
            self._run_full(exc)
        except apsw.BusyError:
            pass  # Somebody else does it just now.
        except apsw.Error as exc:
            self._stop(exc)

    def _leave(self) -> None:
        hit("store-closing")
        try:
            if self._trouble is None:
                self._set_synchronous("FULL")
                self._writer.execute("UPDATE meta SET value = '1' WHERE key = 'clean'")
                self._writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        except apsw.Error as exc:
            log.error("%s could not be marked as closed cleanly: %s", self.path, exc)
        close(self._writer)

    # Trouble, in the writer's thread too

    def _run_full(self, exc: apsw.Error) -> bool:
        """The disk is full: lend the space set aside to what ends something. False when it was lent already."""
        if self._reserve.is_lent:
            return False
        log.error("%s: %s; only what ends something is written until there is room", self.path, exc)
        self._tally["store_full"] += 1
        self._reserve.lend()
        return True

    def _stop(self, exc: apsw.Error) -> StoreError:
        """Take nothing more: what the disk holds and what this connection believes may differ."""
        self._trouble = StoreFailing(str(self.path), str(exc))
        self._kept = committed_frames(self._writer)
        self._tally["store_stopped"] += 1
        log.error("%s", self._trouble)
        return self._trouble

    def _mend(self) -> None:
        """Open the file anew and check it. A disk that fails again is asked again later; a damaged file stays shut."""
        if isinstance(self._trouble, StoreDamaged):
            return
        with ExitStack() as readers_wait:
            for reader in self._readers:
                readers_wait.enter_context(reader.lock)
                reader.close()
            close(self._writer)
            try:
                connections, rewound = self._file.reopen(self._kept, self._shown)
            except StoreError as exc:
                log.error("%s could not be opened anew: %s", self.path, exc)
                self._trouble = exc
                return
            self._use(connections.writer)
            for reader, connection in zip(self._readers, connections.readers, strict=True):
                reader.connection = connection
            self._trouble = None
            self._tally["store_reopened"] += 1
            self._tally["store_rewound"] += len(rewound)
            log.warning("%s was opened anew and is sound; %d logs went back", self.path, len(rewound))
            if rewound:
                self._shown |= {gone.workspace: gone.head for gone in rewound}
                self._oldest += 1
                # Before any reader goes on: whoever reads a new epoch finds its feed there already.
                self._loop.call_soon_threadsafe(self._went_back, rewound)

    def _use(self, writer: apsw.Connection) -> None:
        self._writer = writer
        self._synchronous = ""
        self._frames = 0
        writer.set_wal_hook(self._count_frames)

    def _count_frames(self, connection: apsw.Connection, database: str, frames: int) -> int:
        self._frames = frames
        return apsw.SQLITE_OK

    # Reader threads

    def _read_loop(self, reader: Reader) -> None:
        while (request := self._reads.get()) is not None:
            with reader.lock:
                self._run_read(request, reader.connection)
                self._loop.call_soon_threadsafe(self._deliver, [request], [])
        reader.close()

    def _run_read(self, request: Request, connection: apsw.Connection | None) -> None:
        if connection is None:
            request.error = self._trouble
            return
        try:
            tx = self._units.on(connection)
            connection.execute("BEGIN")
            try:
                request.result = drive(request.work(tx))
            finally:
                connection.execute("ROLLBACK")
        except BaseException as exc:
            request.error = translate(exc, self.path) if isinstance(exc, apsw.Error) else exc

    # Event loop

    def _went_back(self, rewound: list[Rewound]) -> None:
        self._age += 1
        self._rewind(rewound)

    def _deliver(self, batch: list[Request], facts: list[Fact]) -> None:
        if facts:
            _follow(self._publish, facts)
        for request in batch:
            if request.then is not None and request.error is None:
                _follow(request.then, request.result)
        for request in batch:
            if isinstance(request.error, StoreError):
                self._tally["store_errors"] += 1
            request.answer()


def _follow(call: Callable[[T], None], told: T) -> None:
    """It is committed all the same: whoever waits for the commit, or for what follows another's, must not wait for ever."""
    try:
        call(told)
    except Exception:
        log.exception("what follows a commit failed")


async def open_database(
    path: Path,
    *,
    clock: Clock,
    attached: Callable[[str, str], int],
    publish: Callable[[list[Fact]], None],
    rewind: Callable[[list[Rewound]], None] = lambda rewound: None,
    migrations: Sequence[Migration] = MIGRATIONS,
    vfs: str = "",
    kind: type[Database] | None = None,
    tally: Tally | None = None,
) -> Database:
    """Open, check and migrate the file; makes it when missing.

    `rewind` is told on the loop when logs lost numbers that had been published. Raises `StoreTooNew`,
    `StoreDamaged` or another `StoreError`; the file is left as it was found.
    """
    file = File(path, migrations, vfs)
    connections = await asyncio.to_thread(file.open)
    allow_tasks_from_callbacks()  # What follows a commit is called by the loop, and begins turns.
    return (kind or Database)(
        file,
        connections,
        clock=clock,
        attached=attached,
        publish=publish,
        rewind=rewind,
        tally=Tally() if tally is None else tally,
    )


class _UnitFailed(Exception):
    """The only unit of a batch failed by itself; its error is already noted."""
