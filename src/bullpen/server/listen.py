"""The sockets a server listens on: bound so that nobody else can reach, plant or take them.

A unix socket is made with mode 0600 in a directory that is ours alone to write. One server at a time
holds a path: a lock beside the socket is taken before the path is looked at and kept until the
listener closes, so two servers that start together never both take the same dead socket for their own.
The kernel drops the lock with its process, so a lock file left behind by a crash means nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from pathlib import Path

from bullpen.errors import AddressInUse, BadHost, UnsafeSocket
from bullpen.system.address import TcpAddress, UnixAddress

DIAL_S = 0.2
"""How long a server that may be behind an existing socket has to accept; the reference waits as long."""

UNACKNOWLEDGED_S = 30.0
"""How long a TCP peer's kernel may leave bytes unacknowledged. With a heartbeat every 15 s a machine that went away
without a word is known after 45 s; left to itself the kernel tries for a quarter of an hour."""

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class UnixListener(socket.socket):
    """A bound unix socket that takes its file and its lock away when it closes.

    The file is removed only while it is still the one that was bound: whoever replaced it keeps theirs.
    """

    def __init__(self, path: Path, lock: int) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path = path
        self._lock = lock
        self._inode: tuple[int, int] | None = None

    def bind_private(self) -> None:
        """Bind to the path so that only this user may connect."""
        previous = os.umask(0o177)
        try:
            self.bind(os.fspath(self._path))
        finally:
            os.umask(previous)
        self._inode = _inode(self._path)

    def close(self) -> None:
        if self._inode is not None and _inode(self._path) == self._inode:
            self._path.unlink(missing_ok=True)
        self._inode = None
        super().close()
        if self._lock >= 0:
            _release(self._path, self._lock)
            self._lock = -1


def bind_unix(path: Path, *, make_directory: bool = False) -> UnixListener:
    """Bind a private socket at `path`, replacing one whose server is gone.

    `make_directory` is for the default path: its directory is ours, and is made or put right to be 0700.
    Raises `UnsafeSocket` if others could reach or replace the socket there, and `AddressInUse` if a
    server holds the path or might.
    """
    path = path.absolute()
    if make_directory:
        _make_private(path)
    _check_parent(path)
    listener = UnixListener(path, _take_lock(path))
    try:
        _remove_dead(path)
        listener.bind_private()
    except OSError as exc:
        listener.close()
        if exc.errno == errno.EADDRINUSE:
            raise AddressInUse(str(UnixAddress(path))) from exc
        # Python itself refuses a path that is too long for the kernel, without an error number.
        raise UnsafeSocket(str(path), exc.strerror or str(exc)) from exc
    except BaseException:
        listener.close()
        raise
    return listener


def bind_tcp(host: str, port: int) -> socket.socket:
    """Bind a TCP socket; port 0 takes a free one.

    A name that has an IPv4 address gets that one. Raises `AddressInUse`, or `BadHost` if the host is
    not an address of this machine.
    """
    address = str(TcpAddress(host, port))
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as exc:
        raise BadHost(address, "unknown host") from exc
    family, kind, protocol, _, target = min(found, key=lambda each: each[0] != socket.AF_INET)
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Every connection that is accepted here inherits it.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNACKNOWLEDGED_S * 1000))
        sock.bind(target)
    except OSError as exc:
        sock.close()
        match exc.errno:
            case errno.EADDRINUSE:
                raise AddressInUse(address) from exc
            case errno.EADDRNOTAVAIL:
                raise BadHost(address, "not an address of this machine") from exc
            case _:
                raise
    return sock


def _make_private(path: Path) -> None:
    """Make the socket's directory 0700, or make it so again if it is ours already."""
    parent = path.parent
    try:
        with contextlib.suppress(FileExistsError):
            parent.mkdir(mode=0o700)
        found = parent.lstat()
    except OSError as exc:
        raise UnsafeSocket(str(path), f"cannot make {parent}: {exc.strerror}") from exc
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != 0o700:
        parent.chmod(0o700)


def _check_parent(path: Path) -> None:
    """Refuse a directory in which somebody else could plant or replace the socket."""
    parent = path.parent
    try:
        found = parent.lstat()
    except OSError as exc:
        raise UnsafeSocket(str(path), f"{parent}: {exc.strerror}") from exc
    if stat.S_ISLNK(found.st_mode):
        raise UnsafeSocket(str(path), f"{parent} is a symbolic link")
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeSocket(str(path), f"{parent} is not a directory")
    if found.st_uid != os.geteuid():
        raise UnsafeSocket(str(path), f"{parent} belongs to another user")
    if found.st_mode & _WRITABLE_BY_OTHERS:
        raise UnsafeSocket(str(path), f"others may write to {parent}; use a directory of mode 0700")


def _take_lock(path: Path) -> int:
    """Lock `<path>.lock` and return its descriptor.

    The owner removes the file when it leaves, so after locking it is checked that the file we hold is
    the one that is there: else a third server could lock a new file beside us.
    """
    lock_path = _lock_path(path)
    while True:
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise UnsafeSocket(str(path), f"cannot lock {lock_path}: {exc.strerror}") from exc
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            os.close(lock)
            raise AddressInUse(str(UnixAddress(path))) from exc
        held = os.fstat(lock)
        if _inode(lock_path) == (held.st_dev, held.st_ino):
            return lock
        os.close(lock)


def _release(path: Path, lock: int) -> None:
    # Removed while still locked: nobody else can have taken it over in between.
    _lock_path(path).unlink(missing_ok=True)
    os.close(lock)


def _remove_dead(path: Path) -> None:
    """Remove a socket that nobody serves. Only a refused connection proves that: silence does not."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise UnsafeSocket(str(path), "something that is not a socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dial:
        dial.settimeout(DIAL_S)
        try:
            dial.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError as exc:
            raise AddressInUse(str(UnixAddress(path))) from exc
    raise AddressInUse(str(UnixAddress(path)))


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
