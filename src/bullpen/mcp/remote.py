"""A server that is reached over HTTP, in the newer form (`http`) or the older one with an event stream (`sse`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Transport
    from mcp.client._transport import TransportStreams

REQUEST_S = 30.0

SILENCE_S = 300.0
"""How long an open answer may be silent."""


class Remote:
    """One connection to a server elsewhere. `streams` opens and closes it; `story` tells how it went."""

    def __init__(self, kind: str, url: str, headers: Mapping[str, str]) -> None:
        self._kind = kind
        self._url = url
        self._headers = {name: value for name, value in headers.items() if value}
        self._refusal = 0
        self.needs_auth = False

    def story(self) -> str:
        if self.needs_auth:
            return "the server wants a sign-in (HTTP status 401)"
        return f"answered with HTTP status {self._refusal}" if self._refusal else ""

    def streams(self) -> Transport:
        return self._streams()

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[TransportStreams]:
        from mcp.client.sse import sse_client
        from mcp.client.streamable_http import streamable_http_client

        if self._kind == "sse":
            async with sse_client(self._url, httpx_client_factory=self._client) as (read, write):
                yield read, write
            return
        async with self._client() as client, streamable_http_client(self._url, http_client=client) as streams:
            yield streams

    def _client(self, *_: Any, **__: Any) -> httpx2.AsyncClient:
        import httpx2

        return httpx2.AsyncClient(
            headers=self._headers,
            timeout=httpx2.Timeout(REQUEST_S, read=SILENCE_S),
            event_hooks={"response": [self._look_at]},
        )

    async def _look_at(self, response: httpx2.Response) -> None:
        """The library does not say why it was refused."""
        self.needs_auth = response.status_code == 401
        self._refusal = response.status_code if response.status_code >= 400 else 0
