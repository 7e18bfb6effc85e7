"""The only way out: connections to checked addresses.

A name is looked up once for each connection, all of its addresses have to be public, and the connection goes to one of the
very addresses that were checked. So a name server that answers differently the next time gains nothing. The name stays what
it is for the `Host` header and the certificate.
"""

# ruff: noqa: ASYNC109 (`timeout` is what the library calls it)

from __future__ import annotations

import socket
import ssl
import typing
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

import anyio
import httpcore2

from bullpen.errors import ToolFailed
from bullpen.net import addresses

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, as text. Raises OSError."""

MAX_HEAD_BYTES = 16 * 1024
"""What servers send before the content is a twentieth of this; most clients allow no more."""

ATTEMPT_S = 5.0
"""How long one address may take to answer while another could be tried."""

INSIDE_NAMES = ("localhost", "local", "internal", "home.arpa", "onion")
"""Names that by their ending belong to a local network; asking a name server for them tells it about ours."""


class NotReached(ToolFailed):
    """The host cannot be reached, or must not be."""


class Guard(httpcore2.AsyncNetworkBackend):
    """Opens connections for the HTTP client. `allowed` are the places inside that the user's config names."""

    def __init__(
        self,
        *,
        allowed: Collection[tuple[str, int]] = (),
        resolve: Resolve | None = None,
        dial: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        self._allowed = allowed
        self._resolve = resolve or system_resolve
        self._dial = dial or httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[typing.Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        found = await self._addresses(host, port)
        attempt_s = ATTEMPT_S if len(found) > 1 else timeout
        for address in found[:-1]:
            try:
                stream = await self._dial.connect_tcp(address, port, attempt_s, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
            return ShortHead(stream)
        return ShortHead(
            await self._dial.connect_tcp(found[-1], port, timeout, local_address, socket_options)
        )

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def _addresses(self, host: str, port: int) -> list[str]:
        is_allowed = (host, port) in self._allowed
        if not is_allowed and any(host == name or host.endswith(f".{name}") for name in INSIDE_NAMES):
            raise _inside(host, port)
        try:
            found = [host] if addresses.parse(host) else list(dict.fromkeys(await self._resolve(host, port)))
        except (OSError, UnicodeError) as exc:
            raise NotReached(f"The host {host} was not found; check the name.") from exc
        if not found:
            raise NotReached(f"The host {host} has no address.")
        if not is_allowed and not all((ip := addresses.parse(a)) and addresses.is_public(ip) for a in found):
            raise _inside(host, port)
        return found


class ShortHead(httpcore2.AsyncNetworkStream):
    """A connection whose answer begins with a head of ordinary size. Reading thousands of header lines would hold the loop."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream
        self._head: bytes | None = b""
        """What has come of the head; None behind its end."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._head is None:
            return await self._stream.read(max_bytes, timeout)
        came = await self._stream.read(min(max_bytes, MAX_HEAD_BYTES), timeout)
        self._head += came
        if b"\r\n\r\n" in self._head:
            self._head = None
        elif len(self._head) >= MAX_HEAD_BYTES:
            raise httpcore2.RemoteProtocolError(
                f"the head of its answer is longer than {MAX_HEAD_BYTES} bytes"
            )
        return came

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return ShortHead(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> typing.Any:
        return self._stream.get_extra_info(info)


async def system_resolve(host: str, port: int) -> list[str]:
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def _inside(host: str, port: int) -> NotReached:
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return NotReached(
        f"{shown} does not lie in the public internet, and nothing else may be reached. If the user wants it, "
        f'they can add "{shown}" to tools.fetch.allow_private in their own config.'
    )
