"""Who is at the other end of a unix socket, as the kernel saw it when the connection was made."""

from __future__ import annotations

import socket
import struct
import sys
from typing import Protocol

_UCRED = struct.Struct("3i")
"""Linux: process, user and group id."""

_XUCRED = struct.Struct("2I")
"""macOS: the head of `struct xucred`, version and user id; the groups behind it are not read."""

_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES = 0, 1, 76


class HasOptions(Protocol):
    """A socket, or what an event loop shows of one."""

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...


def peer_uid(sock: HasOptions) -> int:
    """The user id of the process that connected; `OSError` where the kernel does not tell."""
    if sys.platform == "darwin":
        head = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES)[: _XUCRED.size]
        _version, uid = _XUCRED.unpack(head)
    else:
        _pid, uid, _gid = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return int(uid)
