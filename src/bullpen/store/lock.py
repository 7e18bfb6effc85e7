"""One process per data directory: an advisory lock that the kernel frees on any death.

The file says who owns it, so that a second server can name the first. It is never deleted: removing a
locked file would let two owners in.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import msgspec

from bullpen import __version__
from bullpen.errors import DataDirectoryInUse, StoreError

LOCK_NAME = "bullpen.lock"


class Owner(msgspec.Struct, frozen=True):
    pid: int = 0
    version: str = ""
    started_at: str = ""


class DataLock:
    """Held from construction until `release`. Raises `DataDirectoryInUse` when somebody else has it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(
                directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        except OSError as exc:
            raise StoreError(f"cannot use the data directory {directory}: {exc.strerror or exc}") from exc
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            owner = read_owner(directory)
            os.close(self._fd)
            raise DataDirectoryInUse(str(directory), owner.pid, owner.version, owner.started_at) from exc
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, msgspec.json.encode(Owner(os.getpid(), __version__, started)), 0)

    def release(self) -> None:
        # Closing alone is not enough: a child that is being started has a copy until it runs its own program.
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        os.close(self._fd)


def read_owner(directory: Path) -> Owner:
    """Who wrote the lock file last; zeros when nobody can be told."""
    try:
        return msgspec.json.decode((directory / LOCK_NAME).read_bytes(), type=Owner)
    except (OSError, msgspec.MsgspecError):
        return Owner()
