"""Where a server listens: host texts such as `unix:///run/x.sock`, and the default socket.

Server and client read the same text in the same way, so both import it from here. Pure functions:
nothing is created, opened or resolved, and the standard library is all that is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bullpen.errors import BadHost

LONGEST_SOCKET_PATH_BYTES = 104
"""The kernel's field for a socket path holds 108 bytes on Linux and 104 on macOS; one rule serves both."""


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket in the file system."""

    path: Path

    def __str__(self) -> str:
        return f"unix://{self.path}"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A TCP port of a host name or address; IPv6 addresses are kept without their brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"


Address = UnixAddress | TcpAddress


def parse_host(text: str) -> Address:
    """Read `unix://<path>` or `tcp://<host>:<port>`; a path after the port is ignored.

    A tcp address without a host means this machine alone, never every interface.
    Raises `BadHost` for anything else.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise BadHost(text)
    match scheme:
        case "unix":
            return _parse_unix(text, rest)
        case "tcp":
            return _parse_tcp(text, rest)
        case "npipe":
            raise BadHost(text, "named pipes are unsupported here")
        case _:
            raise BadHost(text)


def default_socket_path(env: Mapping[str, str]) -> Path:
    """Say where the server of this user listens when nobody says otherwise.

    The socket's directory belongs to Bullpen alone, so that it can be private whatever lies around it.
    """
    private = f"bullpen-{os.geteuid()}"
    runtime = env.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime):  # The XDG specification has relative paths ignored.
        path = Path(runtime, "bullpen", "server.sock")
    else:
        path = Path(env.get("TMPDIR") or "/tmp", private, "server.sock")
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH_BYTES:
        return Path("/tmp", private, "server.sock")
    return path


def _parse_unix(text: str, rest: str) -> UnixAddress:
    if not rest or "\0" in rest:
        raise BadHost(text, "a unix host needs a path")
    return UnixAddress(Path(rest))


def _parse_tcp(text: str, rest: str) -> TcpAddress:
    authority = rest.partition("/")[0]
    host, separator, port = authority.rpartition(":")
    if not separator or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BadHost(text, "a tcp host needs a port")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if (":" in host) != bracketed:
        raise BadHost(text)
    return TcpAddress(host or "127.0.0.1", int(port))
