"""The door that a browser comes back to after a login: one address on this machine, open for as long as it is awaited.

Only the answer to the question that was asked counts. Whatever else knocks, with another `state` or under another name
of this machine, is turned away, and the waiting goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import anyio

from bullpen.errors import BadRequest, ToolServerFailed

PORTS = range(40704, 40714)
"""Tried in turn, so that a login that was registered with such an address can be used again."""

PATH = "/callback"
REQUEST_BYTES = 16 * 1024
REQUEST_S = 10.0


class Answer(NamedTuple):
    code: str
    state: str
    issuer: str | None


class Callback:
    """Made by `listening`."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://localhost:{port}{PATH}"
        self._state = ""
        self._answered = anyio.Event()
        self._answer: Answer | None = None
        self._refusal = ""

    def expect(self, state: str) -> None:
        """The answer will carry this."""
        self._state = state

    async def answer(self) -> Answer:
        """Raises `ToolServerFailed` when the person, or their host, said no."""
        await self._answered.wait()
        if self._answer is None:
            raise ToolServerFailed(f"the login was refused: {self._refusal}")
        return self._answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(REQUEST_S):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                writer.write(self._page(head))
                await writer.drain()
        writer.close()

    def _page(self, head: str) -> bytes:
        line, *headers = head.split("\r\n")
        method, target, *_ = [*line.split(" "), "", ""]
        names = [h.partition(":")[2].strip() for h in headers if h.lower().startswith("host:")]
        parts = urlsplit(target)
        if names not in ([f"localhost:{self.port}"], [f"127.0.0.1:{self.port}"], [f"[::1]:{self.port}"]):
            return _reply(421, "This is not an address of this machine.")
        if method != "GET" or parts.path != PATH:
            return _reply(404, "There is nothing here.")
        said = {name: values[0] for name, values in parse_qs(parts.query).items()}
        state = said.get("state", "")
        if not self._state or not secrets.compare_digest(state.encode(), self._state.encode()):
            return _reply(400, "This does not belong to the login that is under way. Nothing was done.")
        if self._answered.is_set():
            return _reply(400, "This login is over.")
        self._answered.set()
        if "code" in said and "error" not in said:
            self._answer = Answer(said["code"], state, said.get("iss"))
            return _reply(200, "You are logged in. This page can be closed.", closes=True)
        self._refusal = said.get("error_description") or said.get("error") or "no code came back"
        return _reply(200, "The login was refused. Bullpen says more.")


@asynccontextmanager
async def listening(port: int = 0) -> AsyncIterator[Callback]:
    """A door at the wanted port, else at the first free one. Raises `BadRequest` when there is none."""
    for each in (port,) if port else PORTS:
        callback = Callback(each)
        try:
            # Browsers may take "localhost" for either.
            server = await _listen(callback, ["127.0.0.1", "::1"])
        except OSError:
            continue
        async with server:
            yield callback
        return
    wanted = f"port {port}" if port else f"ports {PORTS[0]} to {PORTS[-1]}"
    raise BadRequest(f"the browser cannot come back: {wanted} on this machine cannot be opened")


async def _listen(callback: Callback, hosts: Iterable[str]) -> asyncio.Server:
    hosts = list(hosts)
    try:
        return await asyncio.start_server(callback.serve, hosts, callback.port, limit=REQUEST_BYTES)
    except OSError:
        if len(hosts) == 1:
            raise
        # Not every machine has the newer kind of address.
        return await _listen(callback, hosts[:1])


def _reply(status: int, words: str, *, closes: bool = False) -> bytes:
    """Nothing of what was sent is in the page."""
    script = "<script>setTimeout(() => window.close(), 5000)</script>" if closes else ""
    page = f"<!doctype html><meta charset=utf-8><title>Bullpen</title><p>{words}</p>{script}"
    lines = [
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'No'}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(page)}",
        "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; frame-ancestors 'none'",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    return ("\r\n".join(lines) + f"\r\n\r\n{page}").encode()
