"""One request and its answer on the wire: headers, query and body as they come in, a whole reply as it goes out.

A body is bounded in size and in time, whatever its sender announces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.types import Message, Receive, Scope, Send

from bullpen.errors import BadRequest, TooLarge, TooSlow

BODY_S = 10.0
BODY_BYTES_PER_S = 4 * 1024
"""A body has so long to arrive, and a second more for each so many bytes of it that are there: slower than any
network that a person would put up with, and too fast for a drip that only wants to hold a connection."""

MAX_LENGTH_DIGITS = 18
"""Of an announced length: no body has more, and Python refuses to read numbers of thousands of digits."""

MAX_QUERY_FIELDS = 100

JSON_TYPE = b"application/json"


class Reply(NamedTuple):
    """A whole answer, ready to send."""

    status: int
    body: bytes = b""
    content_type: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()

    async def send(self, send: Send, *, head: bool) -> None:
        """Send it; `head` leaves the body out and keeps its length."""
        headers = [(b"content-length", b"%d" % len(self.body)), *self.headers]
        if self.content_type:
            headers.append((b"content-type", self.content_type))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if head else self.body})


class WatchedSend:
    """A `send` that remembers the status. It hands on the awaitable, so it costs a stream next to nothing."""

    __slots__ = ("_send", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        return self._send(message)


class Gone(Exception):
    """The client hung up before its request was complete; nobody is left to answer."""


class Connection(NamedTuple):
    """The three values of ASGI, and how a request is read from them."""

    scope: Scope
    receive: Receive
    send: WatchedSend

    def header(self, name: bytes) -> str:
        """The first header of that name, or nothing."""
        for key, value in self.scope["headers"]:
            if key == name:
                found: bytes = value
                return found.decode("utf-8", "replace").strip()
        return ""

    def parse_query(self) -> dict[str, str]:
        """The first value of each name, as the reference reads it."""
        raw: bytes = self.scope.get("query_string", b"")
        try:
            pairs = parse_qsl(
                raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS
            )
        except ValueError as exc:
            raise BadRequest("the query string is malformed") from exc
        found: dict[str, str] = {}
        for name, value in pairs:
            found.setdefault(name, value)
        return found

    async def body(self, limit_bytes: int) -> bytes:
        """The whole body. Raises `TooLarge` as soon as that is known, `TooSlow` when it drips in, `Gone` when the
        client hangs up."""
        length = self.header(b"content-length")
        if length.isdecimal() and (len(length) > MAX_LENGTH_DIGITS or int(length) > limit_bytes):
            raise TooLarge(limit_bytes)
        try:
            async with asyncio.timeout(BODY_S) as patience:
                return await self._receive_all(limit_bytes, patience)
        except TimeoutError:
            raise TooSlow from None

    async def _receive_all(self, limit_bytes: int, patience: asyncio.Timeout) -> bytes:
        began = asyncio.get_running_loop().time()
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Gone
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if size > limit_bytes:
                raise TooLarge(limit_bytes)
            chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)
            patience.reschedule(began + BODY_S + size / BODY_BYTES_PER_S)
