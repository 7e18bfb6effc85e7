"""What one connection is held to, and what it shows of itself to the application.

The application finds a `Link` in every request's scope. It says who is on the other side and lets a
writer of a long answer see whether its bytes are taken, without knowing which HTTP it speaks.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from uvicorn.server import ServerState

from bullpen.system.peer import peer_uid
from bullpen.system.tally import Tally

EXTENSION = "bullpen"
"""The key of our `Link` among the scope's extensions."""

UNSENT_OF_STREAM, UNSENT_OF_ANSWER = "unsent_bytes_of_a_stream", "unsent_bytes_of_an_answer"
"""The most that one connection ever held of an event stream, or of any other answer, that its peer had not taken."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a peer may take of the server before it has proved anything."""

    head_bytes: int = 32 * 1024
    """Request line and header fields together, trailers included."""

    head_s: float = 10.0
    """From the first byte of a request to the end of its header: a slow drip ends here."""

    idle_s: int = 75
    """How long a connection without a request stays open: a little over what clients and proxies keep."""

    unsent_bytes: int = 64 * 1024
    """Bytes a connection may hold that its peer has not taken, before a writer has to wait."""

    stall_s: float = 30.0
    """How long bytes may wait without one of them being taken before the connection is cut."""

    connections: int = 2_000
    """More get a 503: far above any team, far below what the process could not carry."""

    pipelined: int = 1_000
    """Requests waiting behind another one on the same connection."""

    linger_s: float = 2.0
    """How long a refused peer has to read the reason before the connection goes away."""


class Link(TypedDict):
    """The connection of a request, as the application sees it."""

    peer_uid: int | None
    """Who connected to the unix socket; `None` on TCP."""

    unix: bool

    unsent: Callable[[], int]
    """Bytes of this answer, or of its connection, that the peer has not taken yet."""

    abort: Callable[[], None]
    """End this answer at once, whatever is unsent."""

    write_now: Callable[[bytes], bool] | None
    """Write a piece of an event stream that is open if the connection has room for it; False when it has not.
    None where the protocol has to wrap each piece."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other side of a connection."""

    uid: int | None
    unix: bool

    @property
    def welcome(self) -> bool:
        """On a unix socket only this user and root may talk to us. On TCP the application asks for a token."""
        return not self.unix or self.uid in {os.geteuid(), 0}


class TransportState(ServerState):
    """What all connections share: uvicorn's state, and the count of everything that was refused or cut."""

    def __init__(self, tally: Tally | None = None) -> None:
        super().__init__()
        self.tally = Tally() if tally is None else tally


def link_of(scope: MutableMapping[str, Any]) -> Link:
    """The link of a request that came in through our protocols; `KeyError` for any other."""
    return cast(Link, scope["extensions"][EXTENSION])


def is_event_stream(start: Mapping[str, Any]) -> bool:
    """Whether the answer that begins with this message is an event stream."""
    kinds = (value for name, value in start.get("headers", ()) if name.lower() == b"content-type")
    return any(kind.startswith(b"text/event-stream") for kind in kinds)


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Ask the kernel who connected. An unknown uid on a unix socket is nobody's, so it is not welcome."""
    sock = transport.get_extra_info("socket")
    # On TCP the local name is a tuple; uvloop's view of a socket has no other sign in common with asyncio's.
    if isinstance(sock.getsockname(), tuple):
        return Peer(uid=None, unix=False)
    try:
        return Peer(uid=peer_uid(sock), unix=True)
    except OSError:
        return Peer(uid=None, unix=True)


class StallWatch:
    """Cuts a connection when bytes wait and none is taken for `limits.stall_s`.

    Started when the write buffer is full, or when a closing connection still has bytes to send. A peer
    that takes a little now and then is slow, not stalled, and is left alone.
    """

    LOOKS_PER_LIMIT = 4
    """A stall is seen at most a quarter of the limit too late."""

    def __init__(self, transport: asyncio.Transport, limits: Limits, tally: Tally) -> None:
        self._transport = transport
        self._limits = limits
        self._tally = tally
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting = 0
        self._since = 0.0

    def start(self) -> None:
        if self._timer is None:
            self._waiting = self._transport.get_write_buffer_size()
            self._since = self._loop.time()
            self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = self._loop.call_later(self._limits.stall_s / self.LOOKS_PER_LIMIT, self._look)

    def _look(self) -> None:
        self._timer = None
        waiting = self._transport.get_write_buffer_size()
        if not waiting:
            return
        if waiting < self._waiting:
            self._since = self._loop.time()
        self._waiting = waiting
        if self._loop.time() - self._since < self._limits.stall_s:
            self._arm()
            return
        self._tally["stalled"] += 1
        self._transport.abort()
