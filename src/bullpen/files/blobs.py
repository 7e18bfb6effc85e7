"""Contents of files, each kept once under the hash of what it is, in one file outside of every workspace.

Contents are appended, because a first look at a workspace brings thousands of them; what nobody needs any more goes when the file is written anew
(`sweep`). It is for this user's eyes only. What is read is held against its name, so a content that a power cut spoilt is missing rather than
wrong. All of this blocks: call it in a thread.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

_HEAD = struct.Struct(">32sI")
"""What stands before each content: its hash and its size."""

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def make_private(directory: Path) -> None:
    """Make a directory of ours, and the one it is in, for this user's eyes only."""
    for place in (directory.parent, directory):
        place.mkdir(mode=0o700, exist_ok=True)


class BlobMissing(Exception):
    """The content was dropped to make room, or did not survive."""


class Blobs:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._fd = -1
        self._end = 0
        self._places: dict[str, tuple[int, int]] = {}
        """Offset and size by name."""
        self._lock = threading.Lock()
        self._is_closed = False
        self._since_mark: set[str] = set()

    @property
    def total(self) -> int:
        """How many bytes lie here."""
        with self._lock:
            self._open()
            return self._end

    def __contains__(self, name: str) -> bool:
        with self._lock:
            self._open()
            return name in self._places

    def put(self, content: bytes, *, room: int, held: set[str] | None = None) -> str | None:
        """Keep a content; gives back its name, or None when all contents together would need more than `room` bytes. A sweep
        leaves those in `held` alone. Raises OSError; then nothing is kept."""
        digest = hashlib.sha256(content).digest()
        name = digest.hex()
        with self._lock:
            if not self._is_closed:
                self._open()
            if name not in self._places:
                size = _HEAD.size + len(content)
                if self._is_closed or self._end + size > room:
                    return None
                self._append(_HEAD.pack(digest, len(content)) + content)
                self._places[name] = (self._end - len(content), len(content))
            self._since_mark.add(name)
            if held is not None:
                held.add(name)
        return name

    def get(self, name: str) -> bytes:
        """Raises `BlobMissing`."""
        with self._lock:
            try:
                self._open()
                offset, size = self._places[name]
                content = os.pread(self._fd, size, offset)
            except (OSError, KeyError):
                raise BlobMissing(name) from None
        if hashlib.sha256(content).hexdigest() != name:
            raise BlobMissing(name)
        return content

    def sync(self) -> None:
        """See to it that everything kept so far survives a power cut."""
        with suppress(OSError):
            with self._lock:
                self._open()
                fd = os.dup(self._fd)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def size_of(self, names: Iterable[str]) -> int:
        with self._lock:
            self._open()
            return sum(_HEAD.size + self._places[name][1] for name in names if name in self._places)

    def mark(self) -> None:
        """A sweep is being prepared: it leaves alone what is put from now on."""
        with self._lock:
            self._since_mark.clear()

    def sweep(self, needed: Collection[str], held: Iterable[set[str]] = ()) -> None:
        """Write anew what is needed, and drop the rest. Raises OSError; then all is as it was."""
        with self._lock:
            self._open()
            kept = self._since_mark.union(needed, *held)
            old, beside = self._places, self._file.with_name(f"{self._file.name}.new")
            fd = os.open(beside, _OPEN | os.O_TRUNC, 0o600)
            try:
                places, end = {}, 0
                for name, (offset, size) in old.items():
                    if name in kept:
                        head = _HEAD.pack(bytes.fromhex(name), size)
                        _write(fd, head + os.pread(self._fd, size, offset), end)
                        places[name] = (end + _HEAD.size, size)
                        end += _HEAD.size + size
                os.fsync(fd)
                os.replace(beside, self._file)
            except OSError:
                os.close(fd)
                beside.unlink(missing_ok=True)
                raise
            os.close(self._fd)
            self._fd, self._places, self._end = fd, places, end

    def close(self) -> None:
        """Nothing is kept from now on."""
        with self._lock:
            self._is_closed = True
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _open(self) -> None:
        if self._fd >= 0:
            return
        if self._is_closed:
            raise OSError("closed")
        make_private(self._file.parent)
        self._fd = os.open(self._file, _OPEN, 0o600)
        self._end = self._find_places()
        os.ftruncate(self._fd, self._end)

    def _find_places(self) -> int:
        """Where the last whole content ends; what follows was being written when the server went down."""
        at, length = 0, os.fstat(self._fd).st_size
        while at + _HEAD.size <= length:
            digest, size = _HEAD.unpack(os.pread(self._fd, _HEAD.size, at))
            if not any(digest) or at + _HEAD.size + size > length:
                break
            self._places[digest.hex()] = (at + _HEAD.size, size)
            at += _HEAD.size + size
        return at

    def _append(self, record: bytes) -> None:
        try:
            _write(self._fd, record, self._end)
        except OSError:
            os.ftruncate(self._fd, self._end)
            raise
        self._end += len(record)


def _write(fd: int, data: bytes, at: int) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(fd, data[written:] if written else data, at + written)
