"""Files that Bullpen writes itself: one change at a time, whole or not at all.

A change takes a lock, reads the file, writes a new one beside it, syncs it and renames it over the old one, so that a
crash leaves the old or the new content, and two processes do not lose each other's changes. Files are 0600,
because they hold keys. A link is followed, so that it stays one. The lock is written to after each change: whoever
watches it hears of changes, and not of the database that lies beside the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from bullpen.config.jsonc import read_object
from bullpen.errors import ConfigError

LOCK_LIMIT_S = 5.0
"""A change takes milliseconds; whoever holds the lock longer hangs."""


def change_file(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Let `change` alter the object in the file. What it raises leaves the file as it was.

    Raises `ConfigError` when the file cannot be read, or somebody holds its lock.
    """
    file = Path(os.path.realpath(file))
    _make_directory(file.parent)
    with locked(lock_of(file)) as lock:
        content = read_object(file) or {}
        change(content)
        replace_file(file, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
        os.pwrite(lock, str(time.time_ns()).encode(), 0)


def lock_of(file: Path) -> Path:
    file = Path(os.path.realpath(file))
    return file.with_name(file.name + ".lock")


def ensure_lock(file: Path) -> Path:
    """The lock, made if it is not there, so that it can be watched. Raises `OSError`."""
    lock = lock_of(file)
    _make_directory(lock.parent)
    os.close(_open(lock))
    return lock


@contextlib.contextmanager
def locked(lock: Path) -> Iterator[int]:
    """Hold the lock file. It is never removed: another process may be waiting on it."""
    descriptor = _open(lock)
    try:
        end = time.monotonic() + LOCK_LIMIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise ConfigError(f"another process holds {lock}; try again") from None
                time.sleep(0.01)
        yield descriptor
    finally:
        os.close(descriptor)


def _open(lock: Path) -> int:
    return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _make_directory(directory: Path) -> None:
    for each in (*reversed(directory.parents), directory):
        each.mkdir(mode=0o700, exist_ok=True)


def replace_file(file: Path, text: bytes) -> None:
    """The new content under the old name, on disk when this returns."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=file.name + ".")
    try:
        with os.fdopen(descriptor, "wb") as opened:
            os.fchmod(opened.fileno(), 0o600)
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
