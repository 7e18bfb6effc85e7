"""A disk that fails on demand, and that can tell at any moment what a power cut would leave of it.

SQLite reaches real files through it. Beside each file stands what is certain to be on the platter (`Shadow.durable`)
and what was only written so far (`Shadow.pending`). A sync moves the second to the first. When a sync fails, the system
forgets that the pending pages were dirty, as Linux does: the file still reads well, the next sync succeeds, and the
platter never sees them unless they are written again.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import apsw

SECTOR_BYTES = 512

Operation = Literal["read", "write", "truncate", "sync"]
Trouble = Literal["eio", "full", "short", "sync", "amnesia"]
"""`sync` fails and keeps its pages readable; `amnesia` fails and has them thrown out of memory as well."""

Image = dict[str, bytes]
"""File names and contents."""

_ERRORS = {
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
}


class Shadow:
    """What a power cut would leave of one file."""

    def __init__(self, durable: bytes) -> None:
        self.durable = bytearray(durable)
        self.pending: list[tuple[int, bytes] | int] = []
        """Writes as offset and bytes, truncations as the new size."""

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def image(self, chance: random.Random | None) -> bytes:
        """Without a chance nothing unsynced survives; else any sectors of it."""
        content = bytearray(self.durable)
        if chance is not None:
            for change in self.pending:
                for piece in _sectors(change):
                    if chance.random() < 0.5:
                        _apply(content, piece)
        return bytes(content)


class Disk(apsw.VFS):
    """Registered under `name` until `unregister`. `on_call` is asked before each operation on a file."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.shadows: dict[str, Shadow] = {}
        self.calls: Counter[str] = Counter()
        self.hits: list[str] = []
        """The faults that really happened."""
        self.on_call: Callable[[Operation, str], Trouble | None] = lambda operation, path: None
        self.lock = threading.RLock()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 SQLite's name
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        assert path is not None, "temporary files stay in memory"
        with self.lock:
            if path not in self.shadows:
                there = Path(path)
                self.shadows[path] = Shadow(there.read_bytes() if there.exists() else b"")
        return _File(self, path, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        with self.lock:
            self.shadows.pop(filename, None)
        super().xDelete(filename, syncdir)

    def image(self, chance: random.Random | None = None) -> Image:
        with self.lock:
            return {Path(path).name: shadow.image(chance) for path, shadow in self.shadows.items()}

    def fail_at(self, operation: Operation, n: int, trouble: Trouble) -> None:
        """The nth operation of a kind from now on fails, once."""
        goal = self.calls[operation] + n

        def on_call(called: Operation, path: str) -> Trouble | None:
            return trouble if called == operation and self.calls[operation] == goal else None

        self.on_call = on_call

    def heal(self) -> None:
        self.on_call = lambda operation, path: None

    def ask(self, operation: Operation, path: str) -> Trouble | None:
        self.calls[operation] += 1
        trouble = self.on_call(operation, path)
        if trouble is not None:
            self.hits.append(f"{trouble} at {operation} {self.calls[operation]} of {path[-4:]}")
        return trouble


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, path: str, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name if name is not None else path, flags)
        self._disk = disk
        self._path = path

    @property
    def _shadow(self) -> Shadow:
        return self._disk.shadows.setdefault(self._path, Shadow(b""))

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        with self._disk.lock:
            if self._disk.ask("read", self._path) is not None:
                raise _error("read")
            return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        content = bytes(data)
        with self._disk.lock:
            match self._disk.ask("write", self._path):
                case None:
                    self._write(content, offset)
                case "full":
                    raise apsw.FullError
                case "short":
                    self._write(content[: len(content) // 2], offset)
                    raise _error("write")
                case _:
                    raise _error("write")

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        with self._disk.lock:
            if self._disk.ask("truncate", self._path) is not None:
                raise _error("truncate")
            self._shadow.pending.append(newsize)
            super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        with self._disk.lock:
            trouble = self._disk.ask("sync", self._path)
            if trouble is None:
                self._shadow.sync()
                super().xSync(flags)
                return
            self._shadow.pending.clear()
            if trouble == "amnesia":
                super().xTruncate(0)
                durable = bytes(self._shadow.durable)
                for start in range(0, len(durable), 4096):
                    super().xWrite(durable[start : start + 4096], start)
            raise _error("sync")

    def _write(self, content: bytes, offset: int) -> None:
        self._shadow.pending.append((offset, content))
        super().xWrite(content, offset)


def put_down(image: Image, directory: Path) -> Path:
    """Make real files of what a power cut left."""
    directory.mkdir(parents=True)
    for name, content in image.items():
        (directory / name).write_bytes(content)
    return directory


def _error(operation: Operation) -> Exception:
    return apsw.exception_for(_ERRORS[operation])


def _apply(content: bytearray, change: tuple[int, bytes] | int) -> None:
    if isinstance(change, int):
        del content[change:]
        return
    offset, data = change
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _sectors(change: tuple[int, bytes] | int) -> list[tuple[int, bytes] | int]:
    if isinstance(change, int):
        return [change]
    offset, data = change
    pieces: list[tuple[int, bytes] | int] = []
    while data:
        size = SECTOR_BYTES - offset % SECTOR_BYTES
        pieces.append((offset, data[:size]))
        offset, data = offset + size, data[size:]
    return pieces
