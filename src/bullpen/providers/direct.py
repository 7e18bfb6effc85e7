"""HTTP/1.1 straight to a model's host, on the event loop's own transport.

A model sends a word at a time, a thousand a second at best, and httpx2's own transport spends 170 µs on each: four layers
of awaiting, and a parser in Python. Here `httptools` parses inside the loop's callback, and a fast speaker is read in gulps,
which costs a tenth. Everything else (URLs, headers, decoders, proxies) stays with httpx2, of which this is a transport.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio import staggered
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, NamedTuple, cast

import httptools
import httpx2

GULP_S = 0.005
"""Whoever speaks fast is listened to this often, several words at a time: a look at a socket costs more than a word."""

FAST_AFTER = 8
"""So many gulps in a row, each soon after the other, are a fast speaker; the few pieces of a short answer are not."""

UNREAD_BYTES = 1 << 20
"""When this much waits to be read, the host is made to wait."""

HEAD_BYTES = 256 * 1024
IDLE_S = 30.0
IDLE_AT_MOST = 128
NEXT_ADDRESS_S = 0.25
"""How long one address of a host may take before the next is tried beside it."""

Headers = list[tuple[bytes, bytes]]


HIGHEST_PORT = 65535


class Origin(NamedTuple):
    scheme: str
    host: str
    port: int


class DirectTransport(httpx2.AsyncBaseTransport):
    """Connections that are kept for the next request, and as many at once as are asked for."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        self._trust = trust
        self._idle: dict[Origin, list[Connection]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        limits: dict[str, float | None] = request.extensions.get("timeout", {})
        body = await request.aread()
        return await self.send(request.method, request.url, request.headers.raw, body, limits.get("connect"))

    async def send(
        self, method: str, url: httpx2.URL, headers: Headers, body: bytes, connect_limit_s: float | None
    ) -> httpx2.Response:
        """The answer as soon as its head is there. The headers are sent as they are, `Host` and all."""
        if (url.port or 0) > HIGHEST_PORT:
            # The system would take what is left of it, and ask whoever listens there.
            raise httpx2.InvalidURL("the port is no number up to 65535")
        head = _head(method, url, headers)
        origin = Origin(url.scheme, url.raw_host.decode("ascii"), url.port or _default_port(url.scheme))
        connection = self._take(origin) or await self._connect(origin, connect_limit_s)
        try:
            status, answered = await connection.ask(head, body)
        except BaseException:
            connection.abort()
            raise
        return httpx2.Response(
            status,
            headers=answered,
            stream=_Body(connection, partial(self._give_back, origin)),
            extensions={"network_stream": connection},
        )

    async def aclose(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()

    def _take(self, origin: Origin) -> Connection | None:
        """The connection that was used last: those that nobody needs grow old."""
        kept = self._idle.get(origin)
        while kept:
            connection = kept.pop()
            if connection.wake_from_idle():
                return connection
        return None

    def _give_back(self, origin: Origin, connection: Connection) -> None:
        kept = self._idle.setdefault(origin, [])
        kept[:] = [each for each in kept if not each.is_closed]
        if len(kept) < IDLE_AT_MOST:
            connection.go_idle()
            kept.append(connection)
        else:
            connection.abort()

    async def _connect(self, origin: Origin, limit_s: float | None) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(limit_s):
                secure = await self._secure(origin)
                connected = await _dial(origin)
                try:
                    _, connection = await loop.create_connection(Connection, sock=connected, **secure)
                except BaseException:
                    connected.close()
                    raise
        except TimeoutError as exc:
            raise httpx2.ConnectTimeout("no connection in time") from exc
        except OSError as exc:
            raise httpx2.ConnectError(str(exc)) from exc
        return connection

    async def _secure(self, origin: Origin) -> dict[str, Any]:
        if origin.scheme != "https":
            return {}
        if self._trust is None:
            # Reading the certificates that are trusted takes some 50 ms.
            self._trust = await asyncio.to_thread(httpx2.create_ssl_context)
        return {"ssl": self._trust, "server_hostname": origin.host}


async def _dial(origin: Origin) -> socket.socket:
    """The first address of the host that answers."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)

    async def dial(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(sock, address)
        except BaseException:
            sock.close()
            raise
        return sock

    if len(found) == 1:
        family, kind, protocol, _, address = found[0]
        return await dial(family, kind, protocol, address)
    ways = [partial(dial, family, kind, protocol, address) for family, kind, protocol, _, address in found]
    sock, _, errors = await staggered.staggered_race(ways, NEXT_ADDRESS_S, loop=loop)
    if sock is None:
        raise next((error for error in errors if error is not None), OSError(f"{origin.host} has no address"))
    return cast(socket.socket, sock)


class Connection(asyncio.Protocol):
    """One connection; one request at a time. Doubles as httpx2's `network_stream`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._parser: Any = None
        self._answered: asyncio.Future[tuple[int, Headers]] | None = None
        self._headers: Headers = []
        self._head_bytes = self._before_answer = 0
        self._pieces: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._reader: asyncio.Future[None] | None = None
        self._read_at = 0.0
        self._quick_reads = 0
        self._resume_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._keep = False
        self._ends_with_connection = False
        self.is_complete = False
        self._error: Exception | None = None
        self.is_closed = False

    def get_extra_info(self, name: str) -> Any:
        return self._transport.get_extra_info(name)

    # The request

    async def ask(self, head: bytes, body: bytes) -> tuple[int, Headers]:
        """Send the request; gives back the status and the header of the answer."""
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._head_bytes, self._before_answer = [], 0, 0
        self._pieces, self._unread = [], 0
        self.is_complete = self._ends_with_connection = False
        self._quick_reads = 0
        self._answered = self._loop.create_future()
        if self._error is not None:
            raise self._error
        self._transport.writelines([head, body])
        return await self._answered

    async def read(self) -> bytes:
        """What has come, at least something; empty at the end of the answer."""
        if not self._pieces and not self.is_complete and self._error is None:
            self._reader = self._loop.create_future()
            await self._reader
        if self._pieces:
            gulp = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces, self._unread = [], 0
            self._pace()
            return gulp
        if self._error is not None and not self.is_complete:
            raise self._error
        return b""

    def abort(self) -> None:
        self._stop_timers()
        self.is_closed = True
        self._transport.abort()

    @property
    def is_reusable(self) -> bool:
        return self.is_complete and self._keep and not self.is_closed and not self._transport.is_closing()

    def go_idle(self) -> None:
        self._idle_timer = self._loop.call_later(IDLE_S, self.abort)

    def wake_from_idle(self) -> bool:
        self._stop_timers()
        return self.is_reusable

    # From the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        if self.is_complete or self._parser is None:
            # Nobody asked: whatever this is, the next answer must not begin with it.
            self.abort()
            return
        if self._answered is not None and not self._answered.done():
            # Counted here too: the parser tells of a header only when it is complete.
            self._before_answer += len(data)
            if self._before_answer > HEAD_BYTES + UNREAD_BYTES:
                self._fail(httpx2.RemoteProtocolError("the head of the answer does not end"))
                self._transport.abort()
                return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._fail(httpx2.RemoteProtocolError(f"the host does not speak HTTP: {exc}"))
            self._transport.abort()
            return
        if self._unread > UNREAD_BYTES:
            self._pause()
        if self._pieces or self.is_complete:
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        self.is_closed = True
        if self._ends_with_connection and exc is None:
            self.is_complete = True
            self._wake()
        else:
            why = str(exc) if exc is not None else "the host closed the connection"
            self._fail(httpx2.ReadError(why) if exc is not None else httpx2.RemoteProtocolError(why))

    # From the parser

    def on_message_begin(self) -> None:
        if self.is_complete:
            raise ValueError("the host answered twice")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES:
            raise ValueError("the header does not end")
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self._headers = []
            return
        fields = {name.lower() for name, _ in self._headers}
        self._keep = self._parser.should_keep_alive()
        self._ends_with_connection = not fields & {b"content-length", b"transfer-encoding"}
        if self._answered is not None and not self._answered.done():
            self._answered.set_result((status, self._headers))

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._unread += len(body)

    def on_message_complete(self) -> None:
        self.is_complete = self._parser.get_status_code() >= 200

    # Reading at the right moments

    def _pace(self) -> None:
        """After a gulp: leave a fast speaker alone for a moment, listen to all others."""
        now = self._loop.time()
        is_quick = now - self._read_at < 2 * GULP_S
        self._quick_reads = self._quick_reads + 1 if is_quick else 0
        self._read_at = now
        if self._quick_reads >= FAST_AFTER and not self.is_complete:
            self._pause()
            if self._resume_timer is None:
                self._resume_timer = self._loop.call_later(GULP_S, self._resume)
        elif self._paused and self._resume_timer is None:
            self._resume()

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        self._resume_timer = None
        if self._paused and self._unread <= UNREAD_BYTES:
            self._paused = False
            self._transport.resume_reading()

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._error = error
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)
        self._wake()

    def _stop_timers(self) -> None:
        for timer in (self._idle_timer, self._resume_timer):
            if timer is not None:
                timer.cancel()
        self._idle_timer = self._resume_timer = None


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, in gulps. Left early, it takes the connection with it."""

    def __init__(self, connection: Connection, give_back: Callable[[Connection], None]) -> None:
        self._connection: Connection | None = connection
        self._give_back = give_back

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        connection = self._connection
        while connection is not None and (gulp := await connection.read()):
            yield gulp

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.is_reusable:
            self._give_back(connection)
        else:
            connection.abort()


def _head(method: str, url: httpx2.URL, headers: Headers) -> bytes:
    lines = [b"%s %s HTTP/1.1" % (method.encode("ascii"), url.raw_path)]
    lines += [b"%s: %s" % field for field in headers]
    if any(b"\r" in line or b"\n" in line or b"\0" in line for line in lines):
        raise httpx2.LocalProtocolError("a header holds a line break")
    return b"\r\n".join([*lines, b"", b""])


def _default_port(scheme: str) -> int:
    if scheme not in {"http", "https"}:
        raise httpx2.UnsupportedProtocol(f"{scheme}:// is not spoken here")
    return 443 if scheme == "https" else 80
