"""How a connection is refused: with a status and a JSON reason that the peer gets to read.

Closing a TCP socket while the peer still sends makes its kernel throw the answer away. So the answer
is sent, our side is ended, and what still comes in is dropped until the peer has hung up or its time
is over.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import msgspec

from bullpen.server.link import Limits, TransportState


def reason(message: str) -> bytes:
    """The body of every error."""
    return msgspec.json.encode({"message": message}) + b"\n"


class Farewell(asyncio.Protocol):
    """Tells a peer why it is refused, then waits a moment for it to go.

    Takes the place of the connection's protocol. Nothing that the peer sends is looked at any more.
    """

    def __init__(self, transport: asyncio.Transport, state: TransportState, limits: Limits) -> None:
        self.transport = transport
        self._connections = state.connections
        self._default_headers = state.default_headers
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None

    def say(self, status: int, message: str) -> None:
        """Send the refusal and begin to wait. A connection that is closing already is left to it."""
        if self.transport.is_closing():
            return
        self._connections.add(self)  # type: ignore[arg-type]  # uvicorn names its own classes
        self.transport.set_protocol(self)
        self.transport.write(self._answer(status, message))
        if not self.transport.can_write_eof():  # TLS cannot end one side alone.
            self.transport.close()
            return
        self.transport.write_eof()
        self.transport.resume_reading()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._limits.linger_s, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def shutdown(self) -> None:
        """Called when the server stops."""
        self.transport.close()

    def _answer(self, status: int, message: str) -> bytes:
        body = reason(message)
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode(),
            *(name + b": " + value for name, value in self._default_headers),
            b"content-type: application/json",
            b"content-length: %d" % len(body),
            b"connection: close",
            b"",
            body,
        ]
        return b"\r\n".join(lines)
