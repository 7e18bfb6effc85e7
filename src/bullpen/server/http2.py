"""HTTP/2 on one connection: uvicorn's zttp protocol, held to our limits.

What differs from uvicorn 0.54.0 (see `http1` for why its insides may be known here):

- A request without a body is complete at once; uvicorn lets the application wait for its end.
- zttp keeps what the peer's window does not admit, without a bound. A writer here waits until what it
  wrote before is gone, and a stream whose window stays shut is reset.
- The header has a size, and a request that drips in has a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, cast
from urllib.parse import unquote

import zttp
from uvicorn._types import ASGISendEvent, HTTPScope
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.zttp_h2_impl import RequestResponseCycle, ZttpH2Protocol

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
from bullpen.server.refusal import reason

_FIELD_OVERHEAD_BYTES = 32
"""RFC 9113, 10.5.1: how a field is counted when its list is held to a size."""


class Http2(ZttpH2Protocol):
    """One HTTP/2 connection and its streams."""

    server_state: TransportState
    cycles: dict[int, StreamCycle]  # type: ignore[assignment]  # ours, which uvicorn's is a base of

    def __init__(self, config: Config, state: TransportState, peer: Peer, limits: Limits) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self._peer = peer
        self._limits = limits
        self._watch: StallWatch
        self._events_seen = 0
        self._drip_timer: asyncio.TimerHandle | None = None
        self._credit = asyncio.Event()
        """Set whenever the peer has sent anything: perhaps more window."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # never another kind
        self._watch = StallWatch(transport, self._limits, self.server_state.tally)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._credit.set()
        self._stop_drip_timer()
        self._watch.stop()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch.stop()

    def data_received(self, data: bytes) -> None:
        self._events_seen = 0
        super().data_received(data)
        self._credit.set()
        if self.transport.is_closing():
            self._watch.start()  # The last frames are on their way, if the peer takes them.
        elif self._events_seen or self.cycles:
            self._stop_drip_timer()
        elif self._drip_timer is None:
            self._drip_timer = self.loop.call_later(self._limits.head_s, self._drip_is_late)

    def events(self) -> Generator[zttp.Event]:
        for event in super().events():
            self._events_seen += 1
            yield event

    def handle_request(self, event: zttp.Request) -> None:
        fields = [(name.lower(), value) for name, value in event.headers]
        size = len(event.target) + sum(len(n) + len(v) + _FIELD_OVERHEAD_BYTES for n, v in fields)
        if size > self._limits.head_bytes:
            self._refuse(event, 431, "the request header is too large")
        elif not event.target.isascii() or not event.path.startswith((b"/", b"*")):
            self._refuse(event, 400, "invalid HTTP request")
        else:
            self._begin(event, fields)

    def handle_rst_stream(self, event: zttp.RstStream) -> None:
        super().handle_rst_stream(event)
        self._credit.set()

    def _begin(self, event: zttp.Request, fields: list[tuple[bytes, bytes]]) -> None:
        cycle = StreamCycle(self, self._scope(event, fields), event.stream_id, self._limits, self._credit)
        if event.end_stream:
            cycle.more_body = False
            cycle.message_event.set()
        self.cycles[event.stream_id] = cycle
        app = service_unavailable if self.shutdown_requested else self.app
        task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def _scope(self, event: zttp.Request, fields: list[tuple[bytes, bytes]]) -> HTTPScope:
        return {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "2",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme or "http",
            "method": event.method.decode("ascii", "replace"),
            "root_path": "",
            "path": unquote(event.path.decode("ascii")),
            "raw_path": event.path,
            "query_string": event.query,
            "headers": _one_cookie_field(fields),
            "state": {},
        }

    def link(self, unsent: Callable[[], int], abort: Callable[[], None]) -> Link:
        return {
            "peer_uid": self._peer.uid,
            "unix": self._peer.unix,
            "unsent": unsent,
            "abort": abort,
            "write_now": None,
        }

    def _refuse(self, event: zttp.Request, status: int, message: str) -> None:
        """Answer one stream with an error; the connection and its other streams go on."""
        self.server_state.tally[f"refused_{status}"] += 1
        body = reason(message)
        stream = self.conn.stream(event.stream_id)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        stream.send_response(status, [*self.server_state.default_headers, *headers])
        stream.send_data(body)
        stream.end_message()

    def _close_connection(self) -> None:
        super()._close_connection()
        self._watch.start()

    def _drip_is_late(self) -> None:
        self.server_state.tally["refused_408"] += 1
        self._close_connection()

    def _stop_drip_timer(self) -> None:
        if self._drip_timer is not None:
            self._drip_timer.cancel()
            self._drip_timer = None


class StreamCycle(RequestResponseCycle):
    """One request and its answer on a stream of its own."""

    def __init__(
        self, connection: Http2, scope: HTTPScope, stream_id: int, limits: Limits, credit: asyncio.Event
    ) -> None:
        super().__init__(
            scope=scope,
            conn=connection.conn,
            stream=connection.conn.stream(stream_id),
            transport=connection.transport,
            flow=connection.flow,
            logger=connection.logger,
            access_logger=connection.access_logger,
            access_log=connection.access_log,
            default_headers=connection.server_state.default_headers,
            message_event=asyncio.Event(),
            on_response=connection.on_response_complete,
            resume_reading=connection.resume_reading_if_idle,
        )
        link = connection.link(self._unsent, self._abort)
        scope["extensions"] = {EXTENSION: cast(dict[object, object], link)}
        self._limits = limits
        self._credit = credit
        self._tally = connection.server_state.tally
        self._is_stream = False

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "http.response.start":
            self._is_stream = is_event_stream(message)
        if self.disconnected or self.transport.is_closing():
            await asyncio.sleep(0)  # See `http1.Cycle.send`.
        else:
            await self._until_taken()
        if self.disconnected:
            return
        if self._ends_beyond_window(message):
            # A stream that has ended is forgotten, so what is left of it has to be gone before that.
            await super().send(cast(ASGISendEvent, {**message, "more_body": True}))
            await self._until_taken()
            await super().send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await super().send(message)

    async def send_500_response(self) -> None:
        body = reason("internal server error")
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    def _ends_beyond_window(self, message: Any) -> bool:
        if message["type"] != "http.response.body" or message.get("more_body", False) or self.bodyless:
            return False
        window = min(self.stream.send_window or 0, self.conn.send_window)
        return 0 < len(message.get("body", b"")) > window

    async def _until_taken(self) -> None:
        """Wait until the window has admitted all that was written; reset the stream if it stays shut."""
        parked = self.stream.pending_bytes
        if not parked:
            return
        self._tally.reach(UNSENT_OF_STREAM if self._is_stream else UNSENT_OF_ANSWER, self._unsent())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.stall_s
        while parked and not self.disconnected:
            self._credit.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._credit.wait()
            except TimeoutError:
                self._tally["stalled"] += 1
                self._abort()
                return
            left = self.stream.pending_bytes
            if left is not None and left < parked:
                deadline = loop.time() + self._limits.stall_s
            parked = left

    def _unsent(self) -> int:
        return self.transport.get_write_buffer_size() + (self.stream.pending_bytes or 0)

    def _abort(self) -> None:
        if self.flow.write_paused:
            # Not the stream is stuck but the connection: a reset would only wait behind the rest.
            self.transport.abort()
            return
        if not self.response_complete:
            self.abort_stream()
        self.message_event.set()
        self._credit.set()


def _one_cookie_field(fields: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """RFC 9113, 8.2.3: HTTP/2 clients may split the cookie field, applications know it whole."""
    cookies = [value for name, value in fields if name == b"cookie"]
    if len(cookies) < 2:
        return fields
    return [field for field in fields if field[0] != b"cookie"] + [(b"cookie", b"; ".join(cookies))]
