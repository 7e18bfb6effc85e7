"""Connections of a simulated world: bytes that travel late, in pieces, or not at all.

The server's end is an `asyncio.Transport` under the product's own HTTP protocol: it buffers, it asks the writer to pause,
and it is lost when the peer is. The client's end is read and written by a simulated person, or by the product's client.

Between the two lies what a kernel would hold: at most a window of bytes that the client has not read. A client may
*cut* the connection (the server hears of it), *freeze* (it stops reading, its kernel goes on) or *vanish* (no byte is
acknowledged any more; the server's kernel gives up after `UNACKNOWLEDGED_S`, as the product asks it to).
"""

from __future__ import annotations

import asyncio
import errno
from typing import Any

from tests.faults.sim.world import World

from bullpen.server.listen import UNACKNOWLEDGED_S

WINDOW_BYTES = 16 * 1024
"""Far below what kernels give, so that a frozen client is felt at once."""

UNSENT_LOW_PART = 4
"""A paused writer goes on when the buffer has fallen to this part of its limit, as in asyncio."""


class Cut(ConnectionError):
    """The connection is gone."""


class Connection:
    """Both ends of one connection, and the way between them."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.server = ServerEnd(self)
        self.client = ClientEnd(self)
        self.vanished_at: float | None = None
        self.lost_at: float | None = None
        """When the server knew."""
        self._upward: list[bytes] = []
        self._pumping = False
        self._unacknowledged_since: float | None = None

    # From the client to the server

    def send_up(self, data: bytes) -> None:
        if self.vanished_at is not None:
            return
        self._upward.append(data)
        if len(self._upward) == 1:
            self.world.loop.call_later(self._latency(), self._arrive)

    def _arrive(self) -> None:
        data = self._upward.pop(0)
        if self.world.chance(10) and len(data) > 1:
            where = self.world.rng.randrange(1, len(data))
            self._upward.insert(0, data[where:])
            data = data[:where]
        if self._upward:
            self.world.loop.call_later(self._latency(), self._arrive)
        if self.lost_at is None:
            self.server.protocol.data_received(data)

    # From the server to the client

    def pump(self) -> None:
        """Begin to carry what the server has written."""
        if not self._pumping:
            self._pumping = True
            self.world.loop.call_later(self._latency(), self._carry)

    def _carry(self) -> None:
        self._pumping = False
        if self.lost_at is not None:
            return
        if self.vanished_at is not None:
            self._give_up_later()
            return
        room = WINDOW_BYTES - len(self.client.received)
        waiting = self.server.unsent
        size = min(room, len(waiting))
        if size > 1 and self.world.chance(10):
            size = self.world.rng.randrange(1, size)
        if size > 0:
            self.client.take_in(bytes(waiting[:size]))
            del waiting[:size]
            self.server.sent()
        if self.server.closing and not waiting:
            self.lose(None)
        elif waiting and len(self.client.received) < WINDOW_BYTES:
            self.pump()

    def _give_up_later(self) -> None:
        """The kernel took the bytes and waits for an acknowledgement."""
        if self.server.unsent and self._unacknowledged_since is None:
            self._unacknowledged_since = self.world.now
            timeout = TimeoutError(errno.ETIMEDOUT, "no acknowledgement")
            self.world.loop.call_later(UNACKNOWLEDGED_S, self.lose, timeout)

    # Ends

    def lose(self, why: Exception | None) -> None:
        """Both ends are over; the server is told."""
        if self.lost_at is not None:
            return
        self.lost_at = self.world.now
        self.client.end(cut=why is not None)
        self.world.loop.call_soon(self.server.lost, why)

    def _latency(self) -> float:
        return self.world.moment() / 4 + 0.0001


class ServerEnd(asyncio.Transport):
    """What the product's protocol writes to."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.protocol: Any
        self.unsent = bytearray()
        self.closing = False
        self._connection = connection
        self._high = 64 * 1024
        self._paused = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.closing:
            return
        self.unsent += data
        if len(self.unsent) > self._high and not self._paused:
            self._paused = True
            self.protocol.pause_writing()
        self._connection.pump()

    def sent(self) -> None:
        if self._paused and len(self.unsent) <= self._high // UNSENT_LOW_PART:
            self._paused = False
            self.protocol.resume_writing()

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True
        self._connection.pump()

    def abort(self) -> None:
        self.closing = True
        self._connection.lose(ConnectionAbortedError())

    def lost(self, why: Exception | None) -> None:
        self.closing = True
        self.protocol.connection_lost(why)

    def pause_reading(self) -> None:
        """One request per connection at a time: there is never more to read."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""


class ClientEnd:
    """What a person's program reads and writes."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.received = bytearray()
        self._ended = False
        self._cut = False
        self._news = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Raises `Cut`."""
        if self._ended:
            raise Cut
        self.connection.send_up(data)

    async def read(self) -> bytes:
        """What has come; empty at the end. Raises `Cut`."""
        while not self.received and not self._ended:
            self._news.clear()
            await self._news.wait()
        data = bytes(self.received)
        self.received.clear()
        if data:
            self.connection.pump()
        elif self._cut:
            raise Cut
        return data

    def cut(self) -> None:
        """Hang up; what is on its way is lost."""
        self.connection.lose(ConnectionResetError())

    def vanish(self) -> None:
        """Neither side will hear of the other again, and nobody says so."""
        if self.connection.vanished_at is None:
            self.connection.vanished_at = self.connection.world.now
            self.connection.pump()

    # Called by the connection

    def take_in(self, data: bytes) -> None:
        self.received += data
        self._news.set()

    def end(self, *, cut: bool) -> None:
        self._ended = True
        self._cut = cut
        self._news.set()
