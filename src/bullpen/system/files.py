"""Read and replace files so that what was checked is what is touched.

A check of a path is worth nothing if a part of it can become a link before the file is opened. Callers
therefore resolve a path first (`paths.real`), decide on the result, and hand the result in here; the file is
then reached step by step, and a step that has become a link is an error.

A replaced file is whole or untouched: the new content is written beside it, synced, and changes places with it in
one step. What then lies beside is what was replaced, and nobody finds it any more: if it is not what the caller has
read, or somebody still has it open to write, the two change back (`FileChanged`). So no foreign edit is lost between
a last look and the rename. All of this blocks: call it in a thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import itertools
import os
import secrets
import shutil
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from bullpen.system.failpoints import hit

COPY_BYTES = 1 << 20
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
BESIDE = ".bullpen-"
"""How the names begin under which files are prepared, or looked at once more before they go."""

_NOT_SUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)

_STEP = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


class Stamp(NamedTuple):
    """Tells one state of a file from another."""

    inode: int
    size: int
    modified_ns: int

    @property
    def modified_at(self) -> float:
        return self.modified_ns / 1e9


class NotRegular(OSError):
    """The path is a directory, a pipe, a device: nothing with a content of its own."""


class FileChanged(OSError):
    """Somebody else changed, made or removed the file since it was looked at; it was left alone."""


def private(path: str | Path, flags: int) -> int:
    """For `open(…, opener=private)`: a file of our own, for this user's eyes only, and never behind a link."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def stamp_of(found: os.stat_result) -> Stamp:
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns)


@contextlib.contextmanager
def open_directory(path: Path, *, create: bool = False) -> Iterator[int]:
    """A descriptor of a directory given by its real path; no step may be a link. `create` makes what is missing."""
    fd = os.open("/", _STEP)
    try:
        for part in path.parts[1:]:
            deeper = _step(part, fd, create=create)
            os.close(fd)
            fd = deeper
        yield fd
    finally:
        os.close(fd)


def list_directory(fd: int, *, most: int) -> list[tuple[str, bool]]:
    """What an open directory holds, each name with whether it is a directory, links being none; in the order of names, and not
    more than asked for. Raises OSError."""
    reading = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
    try:
        with os.scandir(reading) as entries:
            found = [(e.name, e.is_dir(follow_symlinks=False)) for e in itertools.islice(entries, most)]
    finally:
        os.close(reading)
    return sorted(found)


@contextlib.contextmanager
def open_below(name: str, parent: int) -> Iterator[int]:
    """A directory within one that is open; never behind a link."""
    fd = _step(name, parent, create=False)
    try:
        yield fd
    finally:
        os.close(fd)


def open_nameless(directory: Path) -> BinaryIO:
    """A file without a name in a directory given by its real path: whatever happens, nothing is left of it."""
    with open_directory(directory) as parent:
        if hasattr(os, "O_TMPFILE"):
            try:
                fd = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=parent)
                return open(fd, "w+b")
            except OSError as exc:
                if exc.errno not in (*_NOT_SUPPORTED, errno.EISDIR):
                    raise
        name = f".bullpen-{secrets.token_hex(8)}"
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
        os.unlink(name, dir_fd=parent)
        return open(fd, "w+b")


def _step(name: str, parent: int, *, create: bool) -> int:
    try:
        return os.open(name, _STEP, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    return os.open(name, _STEP, dir_fd=parent)


def open_file(path: Path) -> int:
    """A descriptor to read a regular file, given by its real path. Raises `NotRegular` for anything else."""
    with open_directory(path.parent) as parent:
        # Without O_NONBLOCK a pipe that nobody writes to would hold us here.
        fd = os.open(
            path.name or ".", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent
        )
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotRegular(errno.EINVAL, "not a regular file", str(path))
    return fd


def read_file(path: Path, *, limit_bytes: int) -> tuple[bytes, Stamp]:
    """The whole content, and the state it was read in. Raises OSError (EFBIG) past the limit."""
    with open(open_file(path), "rb") as file:
        before = os.fstat(file.fileno())
        if before.st_size > limit_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        content = file.read(limit_bytes + 1)
    return content, stamp_of(before)


def stamp_at(path: Path) -> Stamp | None:
    """The state of the file at a real path, None when there is none. Raises `NotRegular` for anything but a file."""
    try:
        with open_directory(path.parent) as parent:
            found = _look(path.name, parent)
    except FileNotFoundError:
        return None
    return found and stamp_of(found)


def replace_file(
    path: Path,
    content: bytes | BinaryIO,
    *,
    expected: Stamp | None,
    before: bytes | None = None,
    mode: int | None = None,
) -> Stamp:
    """Put the content, or all of an open file, at a real path, if the file is still as expected: None means that there is none.

    `before` is what was read of it; a stamp alone does not tell two changes within one tick of the clock apart.
    Owner and mode of a file stay, unless `mode` is another. Missing directories are made. Raises `FileChanged`, or OSError; the file is
    then as it was.
    """
    with open_directory(path.parent, create=expected is None) as parent:
        found = _look(path.name, parent)
        if (found and stamp_of(found)) != expected:
            raise _changed(path)
        if found and not os.access(path.name, os.W_OK, dir_fd=parent):
            raise PermissionError(errno.EACCES, "the file is read-only", str(path))
        beside = f"{BESIDE}{secrets.token_hex(8)}"
        written: Stamp | None = None
        try:
            written = _write_beside(beside, parent, content, found, mode)
            hit("file-written")
            if expected is None:
                _put(beside, path, parent)
            else:
                _swap(beside, path, parent, expected, before)
            hit("file-swapped")
        except BaseException:
            _remove_own(beside, parent, written)
            raise
        _sync_directory(parent)
    return written


def remove_file(path: Path, *, expected: Stamp, before: bytes) -> None:
    """Take the file at a real path away, if it is still as expected. Raises `FileChanged`, or OSError; it is then still there.

    It is moved aside first, where nobody finds it, and looked at there: an edit that came at the last moment goes back.
    """
    with open_directory(path.parent) as parent:
        found = _look(path.name, parent)
        if found is None or stamp_of(found) != expected:
            raise _changed(path)
        aside = f"{BESIDE}{secrets.token_hex(8)}"
        _move(path.name, aside, parent)
        if not _is_still(aside, parent, expected, before):
            # Should somebody have made another one meanwhile, theirs stays, and this one beside it.
            with contextlib.suppress(FileExistsError):
                _move(aside, path.name, parent)
            raise _changed(path)
        os.unlink(aside, dir_fd=parent)
        _sync_directory(parent)


def _look(name: str, parent: int) -> os.stat_result | None:
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise NotRegular(errno.EINVAL, "not a regular file", name)
    return found


def _write_beside(
    name: str, parent: int, content: bytes | BinaryIO, like: os.stat_result | None, mode: int | None
) -> Stamp:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o644 if like is None and mode is None else 0o600, dir_fd=parent)
    with open(fd, "wb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            content.seek(0)
            shutil.copyfileobj(content, file, COPY_BYTES)
        file.flush()
        hit("file-writing")
        if like is not None:
            _take_after(fd, like)
        if mode is not None:
            os.fchmod(fd, mode)
        os.fsync(fd)
        return stamp_of(os.fstat(fd))


def _take_after(fd: int, like: os.stat_result) -> None:
    """Only a privileged server can give a file away; for others owner and group are theirs anyway."""
    if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.fchown(fd, like.st_uid, like.st_gid)
    os.fchmod(fd, stat.S_IMODE(like.st_mode))


def _remove_own(beside: str, parent: int, written: Stamp | None) -> None:
    """Only what we wrote: when two edits of others met ours, one of theirs may lie there now."""
    with contextlib.suppress(FileNotFoundError):
        if written is None or os.stat(beside, dir_fd=parent, follow_symlinks=False).st_ino == written.inode:
            os.unlink(beside, dir_fd=parent)


def _put(beside: str, path: Path, parent: int) -> None:
    """A new file is linked in, which fails when one is there."""
    try:
        os.link(beside, path.name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
    except FileExistsError:
        raise _changed(path) from None
    except OSError as exc:
        if exc.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
            raise
        if _look(path.name, parent) is not None:
            raise _changed(path) from None
        os.rename(beside, path.name, src_dir_fd=parent, dst_dir_fd=parent)
    else:
        os.unlink(beside, dir_fd=parent)


def _swap(beside: str, path: Path, parent: int, expected: Stamp, before: bytes | None) -> None:
    """Change places with the file, and back if it was not the one that was meant."""
    hit("file-swapping")
    try:
        _exchange(beside, path.name, parent)
    except FileNotFoundError:
        raise _changed(path) from None
    except OSError as exc:
        if exc.errno not in _NOT_SUPPORTED:
            raise
        # This file system cannot: the last look comes right before the rename.
        if not _is_still(path.name, parent, expected, before):
            raise _changed(path) from None
        os.rename(beside, path.name, src_dir_fd=parent, dst_dir_fd=parent)
        return
    if not _is_still(beside, parent, expected, before):
        _exchange(beside, path.name, parent)
        raise _changed(path)
    os.unlink(beside, dir_fd=parent)


def _is_still(name: str, parent: int, expected: Stamp, before: bytes | None) -> bool:
    """Whether this is the file that was read, and nobody is about to change it."""
    try:
        found = _look(name, parent)
        if found is None or stamp_of(found) != expected:
            return False
        with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent), "rb") as file:
            if _is_open_to_write(file.fileno()) or stamp_of(os.fstat(file.fileno())) != expected:
                return False
            return before is None or file.read(len(before) + 1) == before
    except OSError:
        return False


def _is_open_to_write(fd: int) -> bool:
    """A lease for reading is refused while somebody has the file open to write it."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        # Should somebody want the lease back, the signal for that must be one that does no harm.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as exc:
        # Others mean: somebody else's file, or a file system without leases.
        return exc.errno == errno.EAGAIN
    return False


def _exchange(one: str, other: str, parent: int) -> None:
    """Two names change places, in one step. Raises OSError, also where that cannot be done."""
    _rename(one, other, parent, _RENAME_EXCHANGE)


def _move(name: str, to: str, parent: int) -> None:
    """Rename without replacing anything. Raises FileExistsError."""
    try:
        _rename(name, to, parent, _RENAME_NOREPLACE)
    except OSError as exc:
        if exc.errno not in _NOT_SUPPORTED:
            raise
        if _look(to, parent) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), to) from None
        os.rename(name, to, src_dir_fd=parent, dst_dir_fd=parent)


def _rename(name: str, to: str, parent: int, how: int) -> None:
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    if rename(parent, os.fsencode(name), parent, os.fsencode(to), how) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), to)


def _changed(path: Path) -> FileChanged:
    return FileChanged(errno.EBUSY, "the file was changed meanwhile", str(path))


def _sync_directory(parent: int) -> None:
    """A descriptor from a walk may only name the directory; syncing needs one that reads it."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
