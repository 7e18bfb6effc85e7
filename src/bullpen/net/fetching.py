"""Asks a web server and takes its answer: bounded in time, size and redirects, and with nothing of ours in the request.

Every request has a connection of its own through the `Guard`. There are no cookies, no stored logins and no proxies: what is
sent is what stands here and what the caller gives. A redirect to another place is the caller's to decide, because
whoever agreed to one host did not agree to the next. A cancel closes the connection at once.
"""

from __future__ import annotations

import ssl
import time

import anyio
import httpcore2
import msgspec

from bullpen import __version__
from bullpen.net import unpacking, urls
from bullpen.net.exchange import FetchFailed, Limits, Moved, Reply, Request, Take
from bullpen.net.guard import Guard
from bullpen.net.unpacking import Unpacker
from bullpen.net.urls import Url

MAX_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)

BASE_HEADERS = (
    (b"User-Agent", f"Mozilla/5.0 (compatible; bullpen/{__version__})".encode()),
    (b"Accept", b"text/html,application/xhtml+xml,application/json;q=0.9,text/plain;q=0.9,*/*;q=0.5"),
    (b"Accept-Language", b"en;q=0.9,*;q=0.5"),
    (b"Accept-Encoding", unpacking.ACCEPTED),
    (b"Connection", b"close"),
)


class Fetcher:
    """Fetches through one `Guard`. `trust` is for hosts whose certificates the system does not know."""

    def __init__(self, guard: Guard, *, trust: ssl.SSLContext | None = None) -> None:
        self._guard = guard
        self._trust = trust

    async def fetch(
        self, request: Request, take: Take, *, limits: Limits | None = None, moved: Moved | None = None
    ) -> Reply:
        """Raises `ToolFailed` with what went wrong, in words for the model; without `moved` it stays at its place."""
        limits = limits or Limits()
        left = limits.time_s
        for _ in range(MAX_REDIRECTS + 1):
            began = time.monotonic()
            try:
                with anyio.fail_after(left):
                    outcome = await self._exchange(request, take, limits.max_bytes)
            except TimeoutError:
                raise FetchFailed(f"{request.url} was not there within {limits.time_s:g} seconds.") from None
            left -= time.monotonic() - began
            if isinstance(outcome, Reply):
                return outcome
            request = await _moved_on(request, outcome, moved)
        raise FetchFailed(f"More than {MAX_REDIRECTS} redirects, the last one to {request.url}.")

    async def _exchange(self, request: Request, take: Take, max_bytes: int) -> Reply | Url:
        """One request and its answer; the address to go to when it is a redirect."""
        url = request.url
        if url.scheme == "https" and self._trust is None:
            self._trust = await anyio.to_thread.run_sync(httpcore2.default_ssl_context)
        try:
            async with (
                httpcore2.AsyncConnectionPool(
                    ssl_context=self._trust, network_backend=self._guard, max_connections=1, http2=False
                ) as pool,
                pool.stream(
                    request.method,
                    httpcore2.URL(
                        scheme=url.scheme.encode(),
                        host=url.host.encode(),
                        port=url.port,
                        target=url.target.encode(),
                    ),
                    headers=_headers(request),
                    content=request.body or None,
                ) as response,
            ):
                return await _take_answer(request, response, take, max_bytes)
        except httpcore2.TimeoutException as exc:
            raise FetchFailed(f"{url.authority} did not answer in time.") from exc
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError) as exc:
            raise FetchFailed(f"{url.authority} cannot be read: {_why(exc)}") from exc


async def _take_answer(
    request: Request, response: httpcore2.Response, take: Take, max_bytes: int
) -> Reply | Url:
    url, headers = request.url, _folded(response)
    if response.status in REDIRECTS and "location" in headers:
        return urls.follow(url, headers["location"])
    if response.status not in request.accept:
        raise FetchFailed(f"{url} answered with status {response.status}.", status=response.status)
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise FetchFailed(f"{url} is larger than {max_bytes} bytes; nothing of it was taken.")
    unpacker = Unpacker(headers.get("content-encoding", ""), max_bytes=max_bytes)
    async for piece in response.aiter_stream():
        for unpacked in unpacker.take(piece):
            await take(unpacked)
    unpacker.finish()
    return Reply(
        url=url,
        status=response.status,
        content_type=headers.get("content-type", ""),
        size=unpacker.size,
    )


async def _moved_on(request: Request, target: Url, moved: Moved | None) -> Request:
    """The request for where a redirect leads. Nothing that was meant for one place goes to another."""
    if request.method != "GET":
        raise FetchFailed(f"{request.url} sent the request on to {target}, which is not followed.")
    if is_same_place(request.url, target):
        return msgspec.structs.replace(request, url=target)
    if moved is None:
        raise FetchFailed(
            f"{request.url} redirects to another place, {target}; fetch that address itself if it is wanted."
        )
    await moved(target)
    return Request(url=target, accept=request.accept)


def is_same_place(before: Url, after: Url) -> bool:
    """Whether a redirect stays where it was; one from http to https of the same host does, one back does not."""
    if before.host != after.host:
        return False
    if before.scheme == after.scheme:
        return before.port == after.port
    return after.scheme == "https" and (before.port, after.port) == (80, 443)


def _headers(request: Request) -> list[tuple[bytes, bytes]]:
    own = {name.lower() for name in request.headers}
    base = [(name, value) for name, value in BASE_HEADERS if name.decode().lower() not in own]
    given = [(name.encode(), value.encode()) for name, value in request.headers.items()]
    length = [(b"Content-Length", b"%d" % len(request.body))] if request.body else []
    return [(b"Host", request.url.authority.encode()), *base, *given, *length]


def _folded(response: httpcore2.Response) -> dict[str, str]:
    """The first of each header counts."""
    found: dict[str, str] = {}
    for name, value in response.headers:
        found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1").strip())
    return found


def _why(exc: Exception) -> str:
    cause = exc.__cause__ or exc.__context__ or exc
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {cause.verify_message}."
    return f"{exc or type(exc).__name__}".rstrip(".") + "."
