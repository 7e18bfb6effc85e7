"""The one HTTP client that all providers of a server share."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any
from urllib.request import getproxies

import httpx2

from bullpen.providers.direct import DirectTransport, Headers

CONNECT_LIMIT_S = 10.0
SEND_LIMIT_S = 60.0
"""A request may carry megabytes of pictures; a host that takes nothing for a minute is gone."""


_opened: ContextVar[list[httpx2.Response] | None] = ContextVar("opened_responses", default=None)


@asynccontextmanager
async def hanging_up() -> AsyncIterator[None]:
    """Closes at its end what was asked for inside: vendors' packages leave that to the garbage collector."""
    opened: list[httpx2.Response] = []
    _opened.set(opened)
    try:
        yield
    finally:
        _opened.set(None)
        for response in opened:
            await response.aclose()


class ModelClient(httpx2.AsyncClient):
    """httpx2's client, and a short way for requests that need none of its comfort: no cookies, redirects, hooks."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        """Without limit on streams. Proxies come from the environment, but never for this machine.

        Whoever opens it closes it. There is no read limit: providers watch over their own silence, because
        comments that a host sends to keep the line open must not count as progress. `trust` is for hosts whose
        certificates the system does not know.
        """
        direct = DirectTransport(trust)
        behind_proxy = bool({"http", "https", "all"} & getproxies().keys())
        super().__init__(
            timeout=httpx2.Timeout(
                connect=CONNECT_LIMIT_S, write=SEND_LIMIT_S, read=None, pool=CONNECT_LIMIT_S
            ),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=30.0),
            verify=trust if trust is not None else True,
            follow_redirects=False,
            # httpx2 knows the way through proxies; it leaves them aside when it is handed a transport.
            transport=None if behind_proxy else direct,
            mounts={f"all://{host}": direct for host in ("localhost", "127.0.0.1", "[::1]")},
        )
        self._direct = None if behind_proxy else direct

    async def ask(self, url: httpx2.URL, headers: Headers, body: bytes) -> httpx2.Response:
        """POST the body; the answer comes as soon as its head is there. Raises what httpx2 raises."""
        if self._direct is None or url.userinfo:
            return await self.send(
                self.build_request("POST", url, headers=headers, content=body), stream=True
            )
        framing = [(b"Host", url.netloc), (b"Content-Length", b"%d" % len(body))]
        return await self._direct.send("POST", url, framing + headers, body, CONNECT_LIMIT_S)

    def build_request(self, *args: Any, **kwargs: Any) -> httpx2.Request:
        """With our limits: those of vendors' packages are other people's guesses."""
        return super().build_request(*args, **(kwargs | {"timeout": self.timeout}))

    async def send(self, *args: Any, **kwargs: Any) -> httpx2.Response:
        response = await super().send(*args, **kwargs)
        opened = _opened.get()
        if opened is not None:
            opened.append(response)
        return response
