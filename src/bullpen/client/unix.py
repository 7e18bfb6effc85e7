"""HTTP over a unix socket, on the event loop's ordinary transports.

The library's own way waits on the bare socket, and there a cancel that meets arriving bytes leaves an error in the
loop's log. That happens whenever somebody leaves while events come in, so this client brings its own few lines.
"""

# ruff: noqa: ASYNC109 (`timeout` is what the library calls it)

from __future__ import annotations

import select
import socket
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.abc
import httpcore2
import httpx2

FULL_PAUSE_S = 0.02
"""Before trying again at a socket whose queue of callers is full."""


class UnixTransport(httpx2.AsyncBaseTransport):
    """Sends every request to the server behind one socket."""

    def __init__(
        self, path: str, limits: httpx2.Limits, backend: httpcore2.AsyncNetworkBackend | None = None
    ) -> None:
        """`backend` is how connections are made: to the socket at `path`, unless something else is said."""
        self._pool = httpcore2.AsyncConnectionPool(
            uds=path,
            network_backend=backend or _Backend(),
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = httpcore2.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        with _translated():
            answer = await self._pool.handle_async_request(
                httpcore2.Request(
                    request.method,
                    url,
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        assert isinstance(answer.stream, AsyncIterable)
        return httpx2.Response(
            answer.status, headers=answer.headers, stream=_Body(answer.stream), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    """An answer's bytes as they come."""

    def __init__(self, inner: AsyncIterable[bytes]) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for chunk in self._inner:
                yield chunk

    async def aclose(self) -> None:
        close = getattr(self._inner, "aclose", None)
        if close is not None:
            await close()


class _Backend(httpcore2.AsyncNetworkBackend):
    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        try:
            with anyio.fail_after(timeout):
                return _Stream(await _connected(path))
        except TimeoutError as exc:
            raise httpcore2.ConnectTimeout(f"no answer from {path}") from exc
        except OSError as exc:
            raise httpcore2.ConnectError(exc.strerror or str(exc)) from exc

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


async def _connected(path: str) -> anyio.abc.SocketStream:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        while not _is_taken(sock, path):  # noqa: ASYNC110 (another process)
            await anyio.sleep(FULL_PAUSE_S)
        return await anyio.abc.SocketStream.from_socket(sock)
    except BaseException:
        sock.close()
        raise


def _is_taken(sock: socket.socket, path: str) -> bool:
    try:
        sock.connect(path)
    except BlockingIOError:
        return False
    return True


class _Stream(httpcore2.AsyncNetworkStream):
    def __init__(self, inner: anyio.abc.SocketStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            with anyio.fail_after(timeout):
                return await self._inner.receive(max_bytes)
        except TimeoutError as exc:
            raise httpcore2.ReadTimeout("the server is silent") from exc
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as exc:
            raise httpcore2.ReadError("the connection broke") from exc

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            with anyio.fail_after(timeout):
                await self._inner.send(buffer)
        except TimeoutError as exc:
            raise httpcore2.WriteTimeout("the server takes nothing") from exc
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as exc:
            raise httpcore2.WriteError("the connection broke") from exc

    async def aclose(self) -> None:
        await self._inner.aclose()

    def get_extra_info(self, info: str) -> Any:
        sock = self._inner.extra(anyio.abc.SocketAttribute.raw_socket, None)
        match info:
            case "socket":
                return sock
            case "is_readable":
                # An idle connection with something to read is one that the server has closed.
                return sock is None or sock.fileno() < 0 or _has_something(sock)
            case _:
                return None


def _has_something(sock: socket.socket) -> bool:
    waiting = select.poll()
    waiting.register(sock, select.POLLIN)
    return bool(waiting.poll(0))


@contextmanager
def _translated() -> Iterator[None]:
    """The lower library's errors as those of the same name in the upper one."""
    try:
        yield
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as exc:
        kind = getattr(httpx2, type(exc).__name__, httpx2.TransportError)
        raise kind(str(exc)) from exc
