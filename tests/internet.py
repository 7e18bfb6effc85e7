"""A small internet: real servers on this machine, reached under public addresses that only exist here."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import unquote

import httpcore2
import pytest
import trustme

from bullpen.net.guard import Guard

PUBLIC = "93.184.216.34"
"""A public address, at which the servers of these tests stand."""

Write = Callable[[bytes], Awaitable[None]]
Page = bytes | Callable[["Asked", Write], Awaitable[None]]


class Asked(NamedTuple):
    """A request as a server saw it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


def answer(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer; `content_type` is written `Content-Type`."""
    fields = {"content-length": str(len(body))} | {n.replace("_", "-"): v for n, v in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    return answer(status=status, location=location)


class Site:
    """A web server. `pages` by path, without the query; `hung_up` is set when a client has left."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.asked: list[Asked] = []
        self.connections = 0
        self.hung_up = asyncio.Event()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            asked = await self._read(reader)
            self.asked.append(asked)
            page = self.pages.get(asked.target.partition("?")[0], answer(b"nothing here", "404 Not Found"))
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:

                async def write(content: bytes) -> None:
                    writer.write(content)
                    await writer.drain()

                await page(asked, write)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()
            self.hung_up.set()

    async def _read(self, reader: asyncio.StreamReader) -> Asked:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines if x)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Asked(method, target, headers, body)


@asynccontextmanager
async def serving(site: Site, trust: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=trust)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()


class World(httpcore2.AsyncNetworkBackend):
    """Name servers and cables. What goes to the public address reaches the site, all else the canary.

    `answers` are what name servers say, one after the other and the last for ever; unknown names are at the public address.
    """

    def __init__(self, site: Site, secure: Site, canary: Site) -> None:
        self.site, self.secure, self.canary = site, secure, canary
        self.answers: dict[str, list[Sequence[str]]] = {}
        self.asked: list[str] = []
        self.dialled: list[tuple[str, int]] = []
        self._cables = httpcore2.AnyIOBackend()

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        said = self.answers.get(host, [[PUBLIC]])
        return said.pop(0) if len(said) > 1 else said[0]

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # The interface is not ours.
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.dialled.append((host, port))
        there = self.canary if host != PUBLIC else self.secure if port == 443 else self.site
        return await self._cables.connect_tcp("127.0.0.1", there.port, timeout)

    def guard(self, *allowed: tuple[str, int]) -> Guard:
        return Guard(allowed=frozenset(allowed), resolve=self.resolve, dial=self)


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trust(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
async def world(authority: trustme.CA) -> AsyncIterator[World]:
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("site.test", "*.evil.test").configure_cert(shown)
    async with serving(Site()) as site, serving(Site(), shown) as secure, serving(Site()) as canary:
        canary.pages["/"] = answer(b"the inside")
        for place in (site, secure):
            place.pages |= {"/": answer(b"hello", content_type="text/plain"), "/to": _to, "/chain3": _chain}
            place.pages["/again"] = redirect("/again")
        yield World(site, secure, canary)


async def _to(asked: Asked, write: Write) -> None:
    """Redirects to what the query names."""
    await write(redirect(unquote(asked.target.partition("?")[2])))


async def _chain(asked: Asked, write: Write) -> None:
    """Two more redirects in this place, and then to what the query names."""
    path, _, query = asked.target.partition("?")
    await write(redirect(f"/to?{query}" if path == "/chain2" else f"/to?/to?{query}"))
