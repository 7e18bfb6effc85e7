"""The engine: SQLite through one writer thread and a few readers. All that is peculiar to SQLite is here.

Promises:

* one connection writes. It takes all work that is waiting, runs it in one transaction and commits once
  (group commit); a unit that fails rolls back alone;
* a unit asked for as durable is on disk (`synchronous=FULL`) before its caller goes on. Others survive a
  killed process, not a power cut, until the next durable commit syncs them too;
* published facts leave in commit order, after the commit; what a caller wants done `then` is done right
  after them, also when the caller has stopped waiting;
* readers see a snapshot and never wait for the writer (WAL).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import queue
import re
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw

from bullpen.broker import Fact
from bullpen.errors import StoreBusy, StoreDamaged, StoreError, StoreFull, StoreTooNew
from bullpen.store.migrations import MIGRATIONS, Migration
from bullpen.store.tx import Row, Value, Work
from bullpen.system.clock import Clock

T = TypeVar("T")
log = logging.getLogger("bullpen.store")

OLDEST_SAFE_SQLITE = (3, 51, 3)
"""Before this the library can corrupt a WAL database when two connections write or checkpoint together."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Tells a killed process, after which nothing committed is missing, from a machine that went down."""

BUSY_TIMEOUT_MS = 5_000
READERS = 2
MAX_BATCH = 256
"""Units in one commit; bounds how long the first of them waits for the last."""


class Database:
    """An open database file. Made by `open_database`, ended by `close`."""

    def __init__(
        self,
        path: Path,
        writer: apsw.Connection,
        readers: list[apsw.Connection],
        *,
        clock: Clock,
        attached: Callable[[str, str], int],
        publish: Callable[[list[Fact]], None],
    ) -> None:
        self.path = path
        self._clock = clock
        self._attached = attached
        self._publish = publish
        self._writer = writer
        self._synchronous = ""
        self._loop = asyncio.get_running_loop()
        self._writes: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._start(readers)

    def _start(self, readers: list[apsw.Connection]) -> None:
        """Begin to take work. A simulation replaces the threads by moments of its own."""
        self._threads = [threading.Thread(target=self._write_loop, name="bullpen-writer", daemon=True)]
        self._threads += [
            threading.Thread(target=self._read_loop, args=(reader,), name=f"bullpen-reader-{n}", daemon=True)
            for n, reader in enumerate(readers)
        ]
        for thread in self._threads:
            thread.start()

    async def write(
        self, work: Work[T], *, durable: bool = True, then: Callable[[T], None] | None = None
    ) -> T:
        """Run the unit in a transaction; returns after its commit. Raises what the unit raises, or a
        `StoreError`; then nothing of it was kept.

        `then` is called on the loop with the unit's result right after the commit. A cancelled caller takes
        back neither: what has to follow a commit belongs there, not behind the `await`."""
        return await self.submit(work, durable=durable, then=then)

    def submit(
        self, work: Work[T], *, durable: bool, then: Callable[[T], None] | None = None
    ) -> asyncio.Future[T]:
        """The same without waiting for it."""
        return self._enqueue(self._writes, work, durable, then)

    async def read(self, work: Work[T]) -> T:
        """Run the unit on a snapshot."""
        return await self._enqueue(self._reads, work, False)

    async def close(self) -> None:
        """Finish what is queued, leave the file marked clean."""
        if self._closed:
            return
        self._closed = True
        self._writes.put(None)
        for _ in self._threads[1:]:
            self._reads.put(None)
        await asyncio.to_thread(self._join)

    def _join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _enqueue(
        self,
        to: queue.SimpleQueue[_Request | None],
        work: Work[T],
        durable: bool,
        then: Callable[[T], None] | None = None,
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        if self._closed:
            future.set_exception(StoreError("the database is closed"))
        else:
            to.put(_Request(work, future, durable, then))
        return future

    # Writer thread

    def _write_loop(self) -> None:
        while True:
            batch = _take_all(self._writes)
            self._write_batch(batch)
            if batch[-1] is None:
                break
        self._mark_clean()

    def _write_batch(self, taken: list[_Request | None]) -> None:
        batch = [r for r in taken if r is not None]
        if not batch:
            return
        facts: list[Fact] = []
        try:
            self._set_synchronous("FULL" if any(r.durable for r in batch) else "NORMAL")
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                for request in batch:
                    self._run_unit(request, facts, alone=len(batch) == 1)
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
        except _UnitFailed:
            facts = []
        except Exception as exc:
            error = _translate(exc, self.path)
            log.error("commit failed: %s", error, exc_info=not isinstance(exc, apsw.Error))
            facts = []
            for request in batch:
                request.error = error
        self._loop.call_soon_threadsafe(self._deliver, batch, facts)

    def _run_unit(self, request: _Request, facts: list[Fact], *, alone: bool) -> None:
        tx = _SqliteTx(self._writer, int(self._clock.time()), self._attached)
        if not alone:
            self._writer.execute("SAVEPOINT unit")
        try:
            request.result = _drive(request.work(tx))
        except BaseException as exc:
            if isinstance(exc, apsw.Error) and (alone or not self._writer.in_transaction):
                raise
            request.error = _translate(exc, self.path) if isinstance(exc, apsw.Error) else exc
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

    def _mark_clean(self) -> None:
        try:
            self._set_synchronous("FULL")
            self._writer.execute("UPDATE meta SET value = '1' WHERE key = 'clean'")
            self._writer.close()
        except apsw.Error as exc:
            log.error("could not close %s cleanly: %s", self.path, exc)

    # Reader threads

    def _read_loop(self, connection: apsw.Connection) -> None:
        while (request := self._reads.get()) is not None:
            self._read_unit(connection, request)
        connection.close()

    def _read_unit(self, connection: apsw.Connection, request: _Request) -> None:
        try:
            tx = _SqliteTx(connection, int(self._clock.time()), self._attached)
            connection.execute("BEGIN")
            try:
                request.result = _drive(request.work(tx))
            finally:
                connection.execute("ROLLBACK")
        except apsw.Error as exc:
            request.error = _translate(exc, self.path)
        except BaseException as exc:
            request.error = exc
        self._loop.call_soon_threadsafe(self._deliver, [request], [])

    # Event loop

    def _deliver(self, batch: list[_Request], facts: list[Fact]) -> None:
        try:
            if facts:
                self._publish(facts)
            for request in batch:
                if request.then is not None and request.error is None:
                    request.then(request.result)
        except Exception:
            # It is committed all the same: whoever waits for the commit must not wait for ever.
            log.exception("what follows a commit failed")
        for request in batch:
            if request.future.cancelled():
                continue
            if request.error is not None:
                request.future.set_exception(request.error)
            else:
                request.future.set_result(request.result)


async def open_database(
    path: Path,
    *,
    clock: Clock,
    attached: Callable[[str, str], int],
    publish: Callable[[list[Fact]], None],
    migrations: Sequence[Migration] = MIGRATIONS,
    kind: type[Database] = Database,
) -> Database:
    """Open, check and migrate the file; makes it when missing.

    Raises `StoreTooNew`, `StoreDamaged` or `StoreError`; the file is left as it was found.
    """
    writer, *readers = await asyncio.to_thread(_prepare, path, migrations)
    return kind(path, writer, readers, clock=clock, attached=attached, publish=publish)


def _prepare(path: Path, migrations: Sequence[Migration]) -> list[apsw.Connection]:
    """The writer's connection, then the readers'."""
    version = tuple(int(x) for x in apsw.sqlite_lib_version().split("."))
    if version < OLDEST_SAFE_SQLITE:
        needed = ".".join(map(str, OLDEST_SAFE_SQLITE))
        raise StoreError(f"the SQLite library is {apsw.sqlite_lib_version()}, at least {needed} is needed")
    connections: list[apsw.Connection] = []
    try:
        connections.append(writer := _connect(path, readonly=False))
        was_clean = _is_clean(writer)
        if not was_clean:
            _check(writer, path)
        _migrate(writer, path, migrations)
        _begin_life(writer, was_clean=was_clean)
        connections.extend(_connect(path, readonly=True) for _ in range(READERS))
    except BaseException as exc:
        for connection in connections:
            connection.close()
        if isinstance(exc, apsw.Error | OSError):
            raise _translate(exc, path) from exc
        raise
    return connections


def _connect(path: Path, *, readonly: bool) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | (0 if readonly else apsw.SQLITE_OPEN_CREATE)
    connection = apsw.Connection(str(path), flags=flags, statementcachesize=256)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    # Else SQLite plans statements anew whenever their values change.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute(
        "PRAGMA journal_mode=WAL; PRAGMA foreign_keys=ON; PRAGMA mmap_size=0; PRAGMA cache_size=-8000"
    )
    if readonly:
        connection.execute("PRAGMA query_only=ON")
    else:
        path.chmod(0o600)
    return connection


def _is_clean(connection: apsw.Connection) -> bool:
    """Whether the file is new, or whoever had it open last has closed it."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchall():
        return True
    return connection.execute("SELECT value FROM meta WHERE key = 'clean'").fetchall() == [("1",)]


def _begin_life(connection: apsw.Connection, *, was_clean: bool) -> None:
    """Note that the file is in use. After a power cut every log gets a new epoch: numbers of events that were
    shown but not synced may be given again, and no client must take the new ones for the old."""
    boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""
    last = connection.execute("SELECT value FROM meta WHERE key = 'boot'").fetchall()
    with connection:
        if not was_clean and last != [(boot,)]:
            connection.execute("UPDATE workspaces SET epoch = lower(hex(randomblob(4)))")
        for key, value in (("clean", "0"), ("boot", boot)):
            connection.execute(
                "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2", (key, value)
            )


def _check(connection: apsw.Connection, path: Path) -> None:
    """Look the file over before anybody relies on it. Raises `StoreDamaged`."""
    verdict = str(connection.execute("PRAGMA quick_check(1)").fetchall()[0][0])
    if verdict != "ok":
        raise StoreDamaged(str(path), verdict)


def _migrate(connection: apsw.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    found = int(str(connection.execute("PRAGMA user_version").fetchall()[0][0]))
    if found > len(migrations):
        raise StoreTooNew(str(path), found, len(migrations))
    if 0 < found < len(migrations):
        _back_up(connection, path.with_name(f"{path.name}.before-{found + 1}"))
    for number, migration in enumerate(migrations[found:], start=found + 1):
        with connection:
            for statement in migration.statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={number}")


def _back_up(connection: apsw.Connection, backup: Path) -> None:
    """Page by page: VACUUM may renumber rows, and the search index knows them by their numbers."""
    backup.unlink(missing_ok=True)
    backup.touch(mode=0o600)
    target = apsw.Connection(str(backup))
    try:
        with target.backup("main", connection, "main") as copying:
            copying.step()
    finally:
        target.close()


def _translate(exc: BaseException, path: Path) -> StoreError:
    match exc:
        case StoreError():
            return exc
        case apsw.FullError():
            return StoreFull()
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy()
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreDamaged(str(path), str(exc))
        case apsw.CantOpenError() | apsw.ReadOnlyError() | apsw.PermissionsError() | PermissionError():
            return StoreError(f"cannot write the database {path}: {exc}; check the directory's permissions")
        case _:
            return StoreError(f"the database {path} failed: {exc}")


class _UnitFailed(Exception):
    """The only unit of a batch failed by itself; its error is already noted."""


class _Request:
    __slots__ = ("durable", "error", "future", "result", "then", "work")

    def __init__(
        self,
        work: Work[Any],
        future: asyncio.Future[Any],
        durable: bool,
        then: Callable[[Any], None] | None,
    ) -> None:
        self.work = work
        self.future = future
        self.durable = durable
        self.then = then
        self.result: Any = None
        self.error: BaseException | None = None


class _SqliteTx:
    """`Tx` on a connection; its coroutines never suspend."""

    def __init__(self, connection: apsw.Connection, now: int, attached: Callable[[str, str], int]) -> None:
        self._connection = connection
        self.now = now
        self.attached = attached
        self.facts: list[Fact] = []

    async def run(self, sql: str, *values: Value) -> int:
        self._connection.execute(_placeholders(sql), values)
        return self._connection.changes()

    async def rows(self, sql: str, *values: Value) -> list[Row]:
        return self._connection.execute(_placeholders(sql), values).fetchall()

    async def row(self, sql: str, *values: Value) -> Row | None:
        found = self._connection.execute(_placeholders(sql), values).fetchall()
        return found[0] if found else None

    def publish(self, fact: Fact) -> None:
        self.facts.append(fact)


@functools.lru_cache(maxsize=1024)
def _placeholders(sql: str) -> str:
    """`$1` as PostgreSQL writes it becomes `?1`."""
    return re.sub(r"\$(\d+)", r"?\1", sql)


def _drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a unit of work to its end here and now."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # StopIteration's value is untyped
    coroutine.close()
    raise RuntimeError("a unit of work waited for something other than its transaction")


def _take_all(requests: queue.SimpleQueue[_Request | None]) -> list[_Request | None]:
    """Everything that waits, at least one; a None ends the list and the loop."""
    taken = [requests.get()]
    while taken[-1] is not None and len(taken) < MAX_BATCH:
        try:
            taken.append(requests.get_nowait())
        except queue.Empty:
            break
    return taken
