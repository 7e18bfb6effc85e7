"""HTTP/1.1 on one connection: uvicorn's httptools protocol, held to our limits.

What differs from uvicorn 0.54.0, whose insides this module knows (it is pinned to exactly that version):

- `text/event-stream` is close-delimited: `Connection: close`, neither chunked nor counted. The
  reference client reconnects after a cut only then. HTTP/1.0 gets the same for lack of chunks.
- A header has a size and a time, trailers count too and never reach the application's headers.
- What cannot be parsed gets a JSON answer, and never in the middle of another request's answer.
- A hang-up reaches the request that is running, also when others were pipelined behind it.
- A peer that takes no bytes is cut.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from typing import Any, NoReturn, cast

import httptools
from uvicorn._types import ASGI3Application, ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from bullpen.server.link import (
    EXTENSION,
    UNSENT_OF_ANSWER,
    UNSENT_OF_STREAM,
    Limits,
    Link,
    Peer,
    StallWatch,
    TransportState,
    is_event_stream,
)
from bullpen.server.refusal import Farewell, reason

_FIELD_OVERHEAD_BYTES = len(b": \r\n")
_FRAMING_FIELDS = {b"connection", b"content-length", b"transfer-encoding"}
_TOO_LARGE = "the request header is too large"


class Http1(HttpToolsProtocol):
    """One HTTP/1.1 connection."""

    server_state: TransportState

    def __init__(self, config: Config, state: TransportState, peer: Peer, limits: Limits) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self._peer = peer
        self._limits = limits
        self._link: Link
        self._watch: StallWatch

        self._in_head = False
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._reported = False
        """Whether the parser told us something new about the bytes it was last given."""
        self._unreported_bytes = 0
        self._refusal = (400, "invalid HTTP request")
        self._refused = False
        self._running: Cycle | None = None

    # Of the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # never another kind
        super().connection_made(transport)
        self._watch = StallWatch(transport, self._limits, self.server_state.tally)
        self._link = {
            "peer_uid": self._peer.uid,
            "unix": self._peer.unix,
            "unsent": transport.get_write_buffer_size,
            "abort": transport.abort,
            "write_now": self._write_now,
        }
        self._arm_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        # uvicorn tells only the request that was read last.
        if self._running is not None:
            self._running.hang_up()
        self._stop_timers()
        self.pipeline.clear()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch.start()
        # The buffer has just passed its limit, and whoever fills it waits from here on: it grows no further.
        is_stream = self._running is not None and self._running.is_streaming
        peak = UNSENT_OF_STREAM if is_stream else UNSENT_OF_ANSWER
        self.server_state.tally.reach(peak, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch.stop()

    def timeout_keep_alive_handler(self) -> None:
        # Bytes that nobody took in all the idle time will not be taken now.
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    # Of the bytes

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._reported = False
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self._refuse(*self._refusal)
            return
        # Counts what the parser keeps to itself: an unfinished field, a chunk extension, empty lines.
        self._unreported_bytes = 0 if self._reported else self._unreported_bytes + len(data)
        if self._unreported_bytes > self._limits.head_bytes:
            self._refuse(431, _TOO_LARGE)
        elif self._in_head and self._head_timer is None:
            self._head_timer = self.loop.call_later(self._limits.head_s, self._head_is_late)

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                # No upgrade is offered, so the request was answered as it stands and HTTP/1.1 goes on.
                data = data[upgrade.args[0] :]

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._unset_keepalive_if_required()
        self.scope["extensions"] = {EXTENSION: cast(dict[object, object], self._link)}
        self._in_head = True
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + _FIELD_OVERHEAD_BYTES)
        # A trailer would come after the application looked at the headers, so it must not change them.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._reported = True
        self._stop_head_timer()
        version = self.parser.get_http_version()
        if version not in {"1.0", "1.1"}:
            self._deny(505, f"HTTP/{version} is not spoken here")
        if self.parser.should_upgrade() and self._has_body():
            # The parser takes the body of such a request for the next request.
            self._deny(400, "a request with a body cannot ask for an upgrade")
        self._complete_scope(version)
        self._begin(Cycle(self, keep_alive=version == "1.1" and self.parser.should_keep_alive()))

    def on_body(self, body: bytes) -> None:
        self._reported = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._reported = True
        super().on_message_complete()

    def _complete_scope(self, version: str) -> None:
        target = httptools.parse_url(self.url)
        path = target.path or b"/"
        if target.host is not None:
            # RFC 9112, 3.2.2: what an absolute target names stands before the Host field.
            authority = self.url.split(b"//", 1)[1].split(b"/", 1)[0]
            self.headers[:] = [field for field in self.headers if field[0] != b"host"]
            self.headers.append((b"host", authority))
        self.scope["http_version"] = version
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope["path"] = urllib.parse.unquote(path.decode("ascii"))
        self.scope["raw_path"] = path
        self.scope["query_string"] = target.query or b""

    def _begin(self, cycle: Cycle) -> None:
        """Run a request, or queue it behind the one that is running."""
        self.cycle = cycle
        if self._running is None or self._running.response_complete:
            self._start_asgi_task(cycle, self.app)
            return
        if len(self.pipeline) >= self._limits.pipelined:
            self._deny(400, "too many requests at once")
        self.flow.pause_reading()
        self.pipeline.appendleft((cycle, self.app))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cast(Cycle, cycle)
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self._watch.start()

    def _write_now(self, data: bytes) -> bool:
        running = self._running
        if running is None or not running.is_streaming or self.flow.write_paused:
            return False
        self.transport.write(data)
        return True

    # Of the limits

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes:
            self._deny(431, _TOO_LARGE)

    def _has_body(self) -> bool:
        return any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
            for name, value in self.headers
        )

    def _deny(self, status: int, message: str) -> NoReturn:
        """Make the parser stop inside one of its callbacks, and say what to answer then."""
        self._refusal = (status, message)
        raise ValueError(message)

    def _head_is_late(self) -> None:
        self._refuse(408, f"the request header did not arrive within {self._limits.head_s:g} s")

    def _refuse(self, status: int, message: str) -> None:
        """Answer with an error and end the connection; nothing more is read from it.

        An answer that is under way is finished first, or cut if it is the one to the faulty request: a
        second answer in the middle of it would be taken for its content. Requests that only waited are
        dropped, as HTTP allows, and not answered.
        """
        self._refused = True
        self.server_state.tally[f"refused_{status}"] += 1
        self._stop_timers()
        self.pipeline.clear()
        running = self._running
        if running is None or running.response_complete:
            self._say_farewell(status, message)
        elif running is not self.cycle or not running.more_body:
            running.keep_alive = False
        else:
            running.hang_up()
            if running.response_started:
                self.transport.close()
            else:
                self._say_farewell(status, message)

    def _say_farewell(self, status: int, message: str) -> None:
        self.connections.discard(self)
        Farewell(self.transport, self.server_state, self._limits).say(status, message)

    def _arm_idle(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            self._limits.idle_s, self.timeout_keep_alive_handler
        )

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_timers(self) -> None:
        self._unset_keepalive_if_required()
        self._stop_head_timer()
        self._watch.stop()


class Cycle(RequestResponseCycle):
    """One request and its answer."""

    def __init__(self, connection: Http1, *, keep_alive: bool) -> None:
        super().__init__(
            scope=connection.scope,
            transport=connection.transport,
            flow=connection.flow,
            logger=connection.logger,
            access_logger=connection.access_logger,
            access_log=connection.access_log,
            default_headers=connection.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=connection.expect_100_continue,
            keep_alive=keep_alive,
            on_response=connection.on_response_complete,
        )
        self._close_delimited = False

    @property
    def is_streaming(self) -> bool:
        """Whether bytes written now are a part of this answer's body."""
        return (
            self._close_delimited
            and self.response_started
            and not self.response_complete
            and not self.disconnected
            and self.scope["method"] != "HEAD"
            and not self.transport.is_closing()
        )

    def hang_up(self) -> None:
        """Tell the application that nobody waits for the answer any more."""
        if not self.response_complete:
            self.disconnected = True
        self.message_event.set()

    async def send(self, message: ASGISendEvent) -> None:
        if self.disconnected or self.transport.is_closing():
            # uvicorn returns without waiting: a writer that awaits nothing else would hold the loop for
            # ever, and with it the news that its client is gone.
            await asyncio.sleep(0)
        if self.disconnected:
            return
        if self._close_delimited:
            await self._send_part(message)
        elif message["type"] == "http.response.start" and self._must_close(message):
            await super().send(self._close_delimit(message))
        else:
            await super().send(message)

    async def send_500_response(self) -> None:
        body = reason("internal server error")
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    def _must_close(self, message: Any) -> bool:
        if is_event_stream(message):
            return True
        names = {name.lower() for name, _ in message.get("headers", [])}
        return self.scope["http_version"] == "1.0" and b"content-length" not in names

    def _close_delimit(self, message: Any) -> ASGISendEvent:
        self._close_delimited = True
        self.chunked_encoding = False  # uvicorn chooses chunks only while this is undecided.
        self.keep_alive = False  # It then adds `connection: close` and closes at the end.
        kept = [field for field in message.get("headers", []) if field[0].lower() not in _FRAMING_FIELDS]
        return cast(ASGISendEvent, {**message, "headers": kept})

    async def _send_part(self, message: Any) -> None:
        """Write a part of a body that ends when the connection does: the bytes and nothing around them."""
        if self.flow.write_paused:
            await self.flow.drain()
            if self.disconnected:
                return
        if message["type"] != "http.response.body" or self.response_complete:
            raise RuntimeError(f"unexpected ASGI message {message['type']!r} in a close-delimited answer")
        body = message.get("body", b"")
        if body and self.scope["method"] != "HEAD":
            self.transport.write(body)
        if not message.get("more_body", False):
            self.response_complete = True
            self.message_event.set()
            self.transport.close()
            self.on_response()
