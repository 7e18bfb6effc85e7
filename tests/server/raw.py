"""A tiny application on the real server, and clients that speak to it in bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
from starlette.types import ASGIApp, Receive, Scope, Send

from bullpen.server.link import Limits, link_of
from bullpen.server.listen import bind_unix
from bullpen.server.serve import HttpServer

JSON = (b"content-type", b"application/json")


class Play:
    """An application with one path for each thing that a transport can do wrong."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        """Lets `/events` go on to its end."""
        self.closed = asyncio.Event()
        """Set when `/events` was told that its client is gone."""
        self.requests: list[str] = []
        self.most_unsent = 0
        self.link: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.requests.append(scope["path"])
        self.link = link_of(scope)
        handler = getattr(self, "on_" + scope["path"].strip("/"), self.on_hello)
        await handler(scope, receive, send)

    async def on_hello(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b"hello from " + scope["path"].encode()
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": body})

    async def on_scope(self, scope: Scope, receive: Receive, send: Send) -> None:
        link = link_of(scope)
        seen = {
            "version": scope["http_version"],
            "host": [value.decode() for name, value in scope["headers"] if name == b"host"],
            "cookie": [value.decode() for name, value in scope["headers"] if name == b"cookie"],
            "query": scope["query_string"].decode(),
            "uid": link["peer_uid"],
            "unix": link["unix"],
            "unsent": link["unsent"](),
        }
        await send({"type": "http.response.start", "status": 200, "headers": [JSON]})
        await send({"type": "http.response.body", "body": json.dumps(seen).encode()})

    async def on_echo(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.closed.set()
                return
            body += message["body"]
            if not message["more_body"]:
                break
        fields = [name for name, _ in scope["headers"]]
        answer = json.dumps({"bytes": len(body), "fields": len(fields)}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer[:5], "more_body": True})
        await send({"type": "http.response.body", "body": answer[5:]})

    async def on_events(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"connection", b"keep-alive"),
            (b"transfer-encoding", b"chunked"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        gone = asyncio.create_task(self._gone(receive))
        released = asyncio.create_task(self.release.wait())
        await asyncio.wait({gone, released}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        released.cancel()
        await send({"type": "http.response.body", "body": b"data: 2\n\n"})

    async def on_flood(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Writes until released, whether somebody takes it or not, and awaits nothing but `send`."""
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            while not self.release.is_set():
                await send({"type": "http.response.body", "body": b"x" * 1024, "more_body": True})
        finally:
            self.closed.set()

    async def on_pour(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Writes until its client is gone, and notes how much was not taken."""
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.create_task(self._gone(receive))
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * 1024, "more_body": True})
            self.most_unsent = max(self.most_unsent, self.link["unsent"]())

    async def on_big(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"b" * 300_000})

    async def on_crash(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise LookupError("planned")

    async def _gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.closed.set()


@dataclass
class Serving:
    """A running server and the way to it."""

    path: Path
    server: HttpServer
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self, **options: Any) -> Client:
        reader, writer = await asyncio.open_unix_connection(str(self.path), **options)
        self.writers.append(writer)
        return Client(reader, writer)

    async def idle(self) -> None:
        """Wait until no connection is open and no request runs."""
        state = self.server._state
        async with asyncio.timeout(5):
            while state.connections or state.tasks:  # noqa: ASYNC110  # Nothing tells of it.
                await asyncio.sleep(0)

    async def ask(self, request: str) -> Answer:
        """Send one request on a connection of its own and read the answer."""
        client = await self.connect()
        client.send(request)
        return await client.answer()


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, limits: Limits | None = None) -> AsyncIterator[Serving]:
    """Serve an application on a unix socket with a short path of its own."""
    with tempfile.TemporaryDirectory(prefix="bp-") as directory:
        path = Path(directory, "s.sock")
        async with HttpServer(app, [bind_unix(path)], limits=limits) as server:
            here = Serving(path, server)
            try:
                yield here
            finally:
                for writer in here.writers:
                    writer.close()


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """A connection on which a test writes what it likes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: str | bytes) -> None:
        """Write a request; bare newlines stand for those of HTTP."""
        self.writer.write(data.replace("\n", "\r\n").encode() if isinstance(data, str) else data)

    async def head(self) -> Answer:
        """Read a status line and its header."""
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = text.strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        return Answer(int(status.split()[1]), headers, b"")

    async def answer(self) -> Answer:
        """Read a whole answer, however it is delimited."""
        answer = await self.head()
        if "content-length" in answer.headers:
            answer.body = await self.reader.readexactly(int(answer.headers["content-length"]))
        elif answer.headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                answer.body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readexactly(2)
        else:
            answer.body = await self.reader.read()
        return answer

    async def ended(self) -> bool:
        """Whether the server hangs up without another byte."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


class Client2:
    """An HTTP/2 client with prior knowledge, on a connection of its own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.conn = h2.connection.H2Connection(
            h2.config.H2Configuration(header_encoding="utf-8", validate_outbound_headers=False)
        )
        self.conn.initiate_connection()
        self._waiting: list[h2.events.Event] = []

    def flush(self) -> None:
        self._client.send(self.conn.data_to_send())

    def request(
        self,
        path: str,
        *,
        method: str = "GET",
        body: bytes | None = None,
        extra: Sequence[tuple[str, str]] = (),
    ) -> int:
        stream = self.conn.get_next_available_stream_id()
        pseudo = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "here")]
        self.conn.send_headers(stream, [*pseudo, *extra], end_stream=body is None)
        if body is not None:
            self.conn.send_data(stream, body, end_stream=True)
        self.flush()
        return stream

    async def next(self, kind: type[h2.events.Event], stream: int | None = None) -> Any:
        """The next event of a kind, of one stream or any; `None` if the server hangs up first."""
        while True:
            for event in self._waiting:
                if isinstance(event, kind) and stream in {None, getattr(event, "stream_id", None)}:
                    self._waiting.remove(event)
                    return event
            data = await self._client.reader.read(65536)
            if not data:
                return None
            self._waiting += self.conn.receive_data(data)
            self.flush()

    async def answer(self, stream: int) -> Answer:
        """Read a whole answer."""
        head = await self.next(h2.events.ResponseReceived, stream)
        headers = dict(head.headers)
        return Answer(int(headers.pop(":status")), headers, await self.body(stream))

    async def body(self, stream: int) -> bytes:
        """Read a body to its end, giving the server its window back as it comes."""
        body = b""
        while True:
            event = await self._next_of_body(stream)
            if isinstance(event, h2.events.StreamEnded):
                return body
            body += event.data
            self.conn.acknowledge_received_data(event.flow_controlled_length, stream)
            self.flush()

    async def _next_of_body(self, stream: int) -> Any:
        for kind in (h2.events.DataReceived, h2.events.StreamEnded):
            for event in self._waiting:
                if isinstance(event, kind) and event.stream_id == stream:
                    self._waiting.remove(event)
                    return event
        data = await self._client.reader.read(65536)
        assert data, "the server hung up"
        self._waiting += self.conn.receive_data(data)
        self.flush()
        return await self._next_of_body(stream)
