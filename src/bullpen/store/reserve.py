"""Space set aside on the disk, so that what runs can still be ended when the disk is full.

A file of fixed size lies next to the database. When a write finds the disk full, the file's space is lent to the
writes that end something; all others are refused until the space could be taken back.
"""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

log = logging.getLogger("bullpen.store")

RESERVE_BYTES = 4 << 20
"""The end of an ordinary turn takes about 100 KB in the write-ahead log."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Reserve:
    """Used by the writer's thread alone."""

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size = size
        self.is_lent = False

    def keep(self) -> bool:
        """Take the space, or take it back; False when the disk has no room for it."""
        try:
            self._allocate()
        except OSError as exc:
            if exc.errno in _NO_ROOM:
                self.lend()
                return False
            # A file system that cannot promise space still holds a database.
            log.warning("no space can be set aside in %s: %s", self._path, exc)
        self.is_lent = False
        return True

    def lend(self) -> None:
        self.is_lent = True
        try:
            os.truncate(self._path, 0)
        except OSError as exc:
            log.warning("the space of %s cannot be used: %s", self._path, exc)

    def _allocate(self) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if os.fstat(file).st_blocks * 512 < self._size:
                _fill(file, self._size)
        finally:
            os.close(file)


def _fill(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.pwrite(file, bytes(size), 0)
