"""The door every connection comes through: who is it, is there room, and which HTTP does it speak.

On a unix socket only this user and root are let in, by the kernel's word and not by the file mode
alone. HTTP/1.1 and HTTP/2 share each socket: a connection that opens with the HTTP/2 preface, however
the network split it, is handed to `http2`, every other to `http1`. Both are built on the insides of
uvicorn 0.54.0; there is one test for each thing they rely on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from uvicorn.config import Config

from bullpen.server.http1 import Http1
from bullpen.server.link import Limits, Peer, TransportState, peer_of
from bullpen.server.refusal import Farewell

if TYPE_CHECKING:
    from bullpen.server.http2 import Http2

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

_TURNED_AWAY_AT_ONCE = 64
"""How many connections beyond the limit are told so; the rest are cut, or telling them would have no limit."""


class Door(asyncio.Protocol):
    """A connection whose first bytes have not been read yet."""

    def __init__(self, config: Config, state: TransportState, limits: Limits) -> None:
        self._config = config
        self._state = state
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._peer = Peer(uid=None, unix=True)
        self._first = b""
        self._timer: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # never another kind
        self.transport = transport
        self._peer = peer_of(transport)
        if not self._peer.welcome:
            self._state.tally["refused_peer"] += 1
            transport.abort()
            return
        excess = len(self._state.connections) - self._limits.connections
        if excess >= 0:
            self._turn_away(excess)
            return
        transport.set_write_buffer_limits(high=self._limits.unsent_bytes)
        self._state.connections.add(self)  # type: ignore[arg-type]  # uvicorn names its own classes
        self._timer = self._loop.call_later(self._limits.idle_s, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def data_received(self, data: bytes) -> None:
        first_byte = not self._first
        self._first += data
        if len(self._first) >= len(PREFACE) or not PREFACE.startswith(self._first):
            self._hand_over()
        elif first_byte:
            self._stop_timer()
            self._timer = self._loop.call_later(self._limits.head_s, self._is_late)

    def shutdown(self) -> None:
        """Called when the server stops."""
        self.transport.close()

    def _hand_over(self) -> None:
        self._leave()
        kind = _http2() if self._first.startswith(PREFACE) else Http1
        protocol = kind(self._config, self._state, self._peer, self._limits)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        protocol.data_received(self._first)

    def _turn_away(self, excess: int) -> None:
        self._state.tally["refused_503"] += 1
        if excess >= _TURNED_AWAY_AT_ONCE:
            self.transport.abort()
            return
        Farewell(self.transport, self._state, self._limits).say(503, "too many connections")

    def _is_late(self) -> None:
        self._leave()
        self._state.tally["refused_408"] += 1
        message = f"the request header did not arrive within {self._limits.head_s:g} s"
        Farewell(self.transport, self._state, self._limits).say(408, message)

    def _leave(self) -> None:
        self._state.connections.discard(self)
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _http2() -> type[Http2]:
    from bullpen.server.http2 import Http2  # noqa: PLC0415  # Few clients speak it, and it is slow to load.

    return Http2
