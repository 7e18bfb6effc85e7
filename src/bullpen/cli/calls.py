"""Single calls for commands that end at once: the standard library's HTTP over a unix socket or TCP.

Importing the full client would take longer than the command itself.
"""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any, NamedTuple

from bullpen.client.locate import HOST_NAME, find_token
from bullpen.errors import BullpenError, ServerUnreachable, Unauthorized
from bullpen.system.address import Address, TcpAddress, UnixAddress

TIMEOUT_S = 10.0


class Reply(NamedTuple):
    """A status and the decoded body, None when there is none."""

    status: int
    body: Any

    @property
    def message(self) -> str:
        """What the server said against it."""
        told = self.body.get("message") if isinstance(self.body, dict) else None
        return str(told or f"the server answered {self.status}")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__(HOST_NAME, timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


def call(address: Address, method: str, path: str, body: Any = None) -> Reply:
    """Make one call to `path` below `/v1`. Raises `ServerUnreachable` when no answer came, `Unauthorized`."""
    connection = _connection(address)
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if token := find_token(address):
        headers["Authorization"] = f"Bearer {token}"
    try:
        connection.request(method, f"/v1{path}", None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException) as exc:
        why = getattr(exc, "strerror", None) or str(exc) or type(exc).__name__
        raise ServerUnreachable(f"no server answers at {address}: {why}") from exc
    finally:
        connection.close()
    if answer.status == 401:
        raise Unauthorized
    try:
        return Reply(answer.status, json.loads(content) if content else None)
    except ValueError:
        return Reply(answer.status, None)


def get(address: Address, path: str) -> Any:
    """The decoded answer to a GET. Raises `BullpenError` with the server's words when it refuses."""
    reply = call(address, "GET", path)
    if reply.status != 200:
        raise BullpenError(reply.message)
    return reply.body


def _connection(address: Address) -> http.client.HTTPConnection:
    match address:
        case UnixAddress(path=path):
            return _UnixConnection(str(path))
        case TcpAddress(host=host, port=port):
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
