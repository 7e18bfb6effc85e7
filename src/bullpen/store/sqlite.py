"""One SQLite file: opened, checked, migrated, renewed after a failing disk, copied; and its errors in our words.

Everything here blocks and belongs into a thread. `vfs` names the layer through which SQLite reaches the disk; the
empty name is the system's own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import apsw

from bullpen.errors import (
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFailing,
    StoreFull,
    StoreTooNew,
)
from bullpen.store.migrations import MIGRATIONS, Migration
from bullpen.system.failpoints import hit
from bullpen.system.files import private

log = logging.getLogger("bullpen.store")

OLDEST_SAFE_SQLITE = (3, 51, 3)
"""Before this the library can corrupt a WAL database when two connections write or checkpoint together."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Tells a killed process, after which nothing committed is missing, from a machine that went down."""

BUSY_TIMEOUT_MS = 5_000
READERS = 2

DISTRUSTED = (apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.InternalError)
"""After one of these nobody knows what the file holds, or what a connection believes that it holds."""

_WAL_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_PIECE_BYTES = 64 * 1024
"""SQLite's own file layer takes less than 128 KiB at a time."""


class Connections(NamedTuple):
    writer: apsw.Connection
    readers: list[apsw.Connection]


class Rewound(NamedTuple):
    """A log that goes on from an earlier number than it had shown, under a new epoch."""

    workspace: str
    epoch: str
    head: int


class File(NamedTuple):
    """Where the database is, and what it has to look like."""

    path: Path
    migrations: Sequence[Migration] = MIGRATIONS
    vfs: str = ""

    def open(self) -> Connections:
        """Open, check and migrate the file; makes it when missing.

        Raises `StoreTooNew`, `StoreDamaged` or another `StoreError`; the file is left as it was found.
        """
        _require_safe_library()
        writer: apsw.Connection | None = None
        try:
            _make_private(self.path)
            writer = connect(self.path, vfs=self.vfs)
            self.path.chmod(0o600)
            was_clean = _is_clean(writer)
            if not was_clean:
                check(writer, self.path)
            _migrate(writer, self.path, self.migrations)
            _begin_life(writer, was_clean=was_clean)
            return Connections(writer, self._readers())
        except BaseException as exc:
            if writer is not None:
                close(writer)
            if isinstance(exc, apsw.Error | OSError):
                raise translate(exc, self.path) from exc
            raise

    def reopen(self, kept: int | None, shown: Mapping[str, int]) -> tuple[Connections, list[Rewound]]:
        """Open a file again that a disk has failed under; every connection to it has been closed.

        `kept` is how many frames of the write-ahead log were committed, and `shown` the last number that was shown of
        each workspace's log. If any of that is gone, the logs get new epochs. Raises a `StoreError`.
        """
        writer: apsw.Connection | None = None
        try:
            self._renew_log(kept)
            writer = connect(self.path, vfs=self.vfs)
            check(writer, self.path)
            rewound = _rewind(writer, shown, is_short=kept is not None and committed_frames(writer) != kept)
            return Connections(writer, self._readers()), rewound
        except BaseException as exc:
            if writer is not None:
                close(writer)
            if isinstance(exc, apsw.Error | OSError):
                raise translate(exc, self.path) from exc
            raise

    def _renew_log(self, kept: int | None) -> None:
        """Write what the write-ahead log holds once more, and cut off what was not committed.

        After a sync has failed the system takes the pages in its memory for written, and the next sync would
        succeed without writing them. Only bytes that are written anew are sure to be part of it.
        """
        log = Path(f"{self.path}-wal")
        if not log.exists():
            return
        flags = [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE, 0]
        file = apsw.VFSFile(self.vfs, str(log), flags)
        try:
            size = file.xFileSize()
            if kept is not None:
                size = min(size, self._log_bytes(file, kept))
            for start in range(0, size, _PIECE_BYTES):
                file.xWrite(file.xRead(min(_PIECE_BYTES, size - start), start), start)
            file.xTruncate(size)
            file.xSync(apsw.SQLITE_SYNC_FULL)
        finally:
            file.xClose()

    def _log_bytes(self, log: apsw.VFSFile, frames: int) -> int:
        if not frames:
            return 0
        page = int.from_bytes(log.xRead(12, 0)[8:12], "big")
        return _WAL_HEADER_BYTES + frames * (_FRAME_HEADER_BYTES + page)

    def _readers(self) -> list[apsw.Connection]:
        readers: list[apsw.Connection] = []
        try:
            while len(readers) < READERS:
                readers.append(connect(self.path, vfs=self.vfs, readonly=True))
        except BaseException:
            for reader in readers:
                close(reader)
            raise
        return readers


def connect(path: Path, *, vfs: str = "", readonly: bool = False) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | (0 if readonly else apsw.SQLITE_OPEN_CREATE)
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs or None, statementcachesize=256)
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        # Else SQLite plans statements anew whenever their values change.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        # What a savepoint may have to put back stays in memory: no file elsewhere can fail or fill up.
        for pragma in ("journal_mode=WAL", "mmap_size=0", "cache_size=-2000", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        # The writer checkpoints, and looks at what comes of it. SQLite's own checkpoints, at a commit and at the last
        # close, keep a failed sync to themselves.
        connection.execute("PRAGMA wal_autocheckpoint=0").fetchall()
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if readonly:
            connection.execute("PRAGMA query_only=ON")
    except BaseException:
        close(connection)
        raise
    return connection


def close(connection: apsw.Connection) -> None:
    """It is closed in any case; what the disk refused on the way is told to nobody who could mend it."""
    try:
        connection.close()
    except apsw.Error as exc:
        log.warning("the disk failed while a connection was being closed: %s", exc)


def committed_frames(writer: apsw.Connection) -> int | None:
    """How much of the write-ahead log counts; None when even that cannot be told."""
    try:
        return writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0]
    except apsw.Error:
        return None


def check(connection: apsw.Connection, path: Path) -> None:
    """Look the file over before anybody relies on it. Raises `StoreDamaged`."""
    verdict = str(connection.execute("PRAGMA quick_check(1)").fetchall()[0][0])
    if verdict != "ok":
        raise StoreDamaged(str(path), verdict)


def back_up(connection: apsw.Connection, backup: Path) -> None:
    """Copy the database as it is now; others may go on writing to it.

    Page by page: VACUUM may renumber rows, and the search index knows them by their numbers. Whoever opens the
    copy begins new epochs, because the original may have given its next numbers to others already.
    """
    _make_private(backup)
    target = apsw.Connection(str(backup))
    try:
        with target.backup("main", connection, "main") as copying:
            copying.step()
        with target:
            for key, value in (("clean", "0"), ("boot", "a copy")):
                _set_meta(target, key, value)
    finally:
        target.close()


def copy(path: Path, backup: Path) -> None:
    """`back_up` for somebody who does not have the database open: another process may. Raises a `StoreError`."""
    if backup.exists():
        raise StoreError(f"{backup} exists already; it is not overwritten")
    try:
        connection = connect(path, readonly=True)
        try:
            back_up(connection, backup)
        finally:
            close(connection)
    except (apsw.Error, OSError) as exc:
        backup.unlink(missing_ok=True)
        raise StoreError(f"{path} could not be copied to {backup}: {exc}") from exc


def _make_private(path: Path) -> None:
    """SQLite would make it with the process's umask; its companions get the mode of the file itself."""
    with contextlib.suppress(FileExistsError):
        os.close(private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


def translate(exc: BaseException, path: Path) -> StoreError:
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
        case apsw.IOError() | apsw.InternalError():
            return StoreFailing(str(path), str(exc))
        case _:
            return StoreError(f"the database {path} failed: {exc}")


def _require_safe_library() -> None:
    version = tuple(int(x) for x in apsw.sqlite_lib_version().split("."))
    if version < OLDEST_SAFE_SQLITE:
        needed = ".".join(map(str, OLDEST_SAFE_SQLITE))
        raise StoreError(f"the SQLite library is {apsw.sqlite_lib_version()}, at least {needed} is needed")


def _is_clean(connection: apsw.Connection) -> bool:
    """Whether the file is new, or whoever had it open last has closed it."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchall():
        return True
    return connection.execute("SELECT value FROM meta WHERE key = 'clean'").fetchall() == [("1",)]


def _migrate(connection: apsw.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    found = int(str(connection.execute("PRAGMA user_version").fetchall()[0][0]))
    if found > len(migrations):
        raise StoreTooNew(str(path), found, len(migrations))
    if 0 < found < len(migrations):
        _keep_copy(connection, path.with_name(f"{path.name}.before-{found + 1}"))
    for number, migration in enumerate(migrations[found:], start=found + 1):
        with connection:
            for statement in migration.statements:
                connection.execute(statement)
            hit("migrating")
            connection.execute(f"PRAGMA user_version={number}")
        hit("migrated")


def _keep_copy(connection: apsw.Connection, backup: Path) -> None:
    """The name appears with the whole copy behind it: who dies halfway leaves no half backup."""
    unfinished = backup.with_name(f"{backup.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    back_up(connection, unfinished)
    os.replace(unfinished, backup)


def _begin_life(connection: apsw.Connection, *, was_clean: bool) -> None:
    """Note that the file is in use. After a power cut every log gets a new epoch: numbers of events that were
    shown but not synced may be given again, and no client must take the new ones for the old."""
    # Where boots have no name, any unclean end may have been a power cut.
    boot = BOOT_ID.read_text().strip() if BOOT_ID.exists() else secrets.token_hex(16)
    last = connection.execute("SELECT value FROM meta WHERE key = 'boot'").fetchall()
    with connection:
        if not was_clean and last != [(boot,)]:
            connection.execute("UPDATE workspaces SET epoch = lower(hex(randomblob(4)))")
        _set_meta(connection, "clean", "0")
        _set_meta(connection, "boot", boot)


def _rewind(connection: apsw.Connection, shown: Mapping[str, int], *, is_short: bool) -> list[Rewound]:
    """Give new epochs to the logs that do not stand where they were last shown to be; when commits are missing, to
    all: text that grows is lost without its log being shorter."""
    rows = connection.execute("SELECT id, head FROM workspaces").fetchall()
    heads = {str(workspace): int(str(head)) for workspace, head in rows}
    rewound = [
        Rewound(workspace, secrets.token_hex(4), heads[workspace])
        for workspace, head in shown.items()
        if workspace in heads and (is_short or heads[workspace] != head)
    ]
    with connection:
        for log in rewound:
            connection.execute("UPDATE workspaces SET epoch = ? WHERE id = ?", (log.epoch, log.workspace))
    return rewound


def _set_meta(connection: apsw.Connection, key: str, value: str) -> None:
    connection.execute(
        "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2", (key, value)
    )
