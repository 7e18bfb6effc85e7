"""One process per data directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bullpen.errors import DataDirectoryInUse, StoreError
from bullpen.store.lock import LOCK_NAME, DataLock, read_owner


def test_the_second_owner_is_told_who_the_first_is(tmp_path: Path) -> None:
    lock = DataLock(tmp_path)
    with pytest.raises(DataDirectoryInUse, match=f"pid={os.getpid()}"):
        DataLock(tmp_path)
    lock.release()
    DataLock(tmp_path).release()


def test_a_dead_owner_is_replaced(tmp_path: Path) -> None:
    """R-10: the kernel frees the lock on any death; the file stays."""
    code = f"from bullpen.store.lock import DataLock; from pathlib import Path; import os\nDataLock(Path({str(tmp_path)!r})); os._exit(9)"
    died = subprocess.run([sys.executable, "-c", code], check=False)
    assert died.returncode == 9
    assert read_owner(tmp_path).pid not in (0, os.getpid())
    lock = DataLock(tmp_path)
    assert read_owner(tmp_path).pid == os.getpid()
    lock.release()


def test_a_released_lock_is_free_also_while_a_child_has_a_copy_of_it(tmp_path: Path) -> None:
    """As one has between being forked and running its own program."""
    lock = DataLock(tmp_path)
    opened = Path("/proc/self/fd")
    held = [int(fd.name) for fd in opened.iterdir() if fd.resolve() == (tmp_path / LOCK_NAME).resolve()]
    copies = [os.dup(fd) for fd in held]
    lock.release()
    DataLock(tmp_path).release()
    for copy in copies:
        os.close(copy)
    assert len(copies) == 1


def test_a_link_in_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / LOCK_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        DataLock(tmp_path)
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_the_directory_is_made_private(tmp_path: Path) -> None:
    lock = DataLock(tmp_path / "new")
    assert ((tmp_path / "new").stat().st_mode & 0o777) == 0o700
    lock.release()


def test_an_unreadable_owner_is_nobody(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).write_text("garbage")
    assert read_owner(tmp_path).pid == 0
    DataLock(tmp_path).release()
