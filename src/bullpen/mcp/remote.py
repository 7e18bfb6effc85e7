"""A server that is reached over HTTP, in the newer form (`http`) or the older one with an event stream (`sse`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from bullpen.config.shape import McpServer
from bullpen.mcp.logins import LoginBook, can_log_in, is_private, login_key

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Transport
    from mcp.client._transport import TransportStreams


class Remote:
    """One connection to a server elsewhere. `streams` opens and closes it; `story` tells how it went."""

    def __init__(self, server: McpServer, logins: LoginBook) -> None:
        self._server = server
        self._logins = logins
        self._refusal = 0
        self._problem = ""
        self.needs_auth = False

    def story(self) -> str:
        if self._problem:
            return self._problem
        return f"answered with HTTP status {self._refusal}" if self._refusal else ""

    def streams(self) -> Transport:
        return self._streams()

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[TransportStreams]:
        from mcp.client.sse import sse_client
        from mcp.client.streamable_http import streamable_http_client

        from bullpen.mcp.http import MAX_BODY_BYTES, trusted

        # Beforehand and in a thread, as it would hold everybody.
        await anyio.to_thread.run_sync(trusted)
        url = self._server.url
        if self._server.type == "sse":
            async with sse_client(url, httpx_client_factory=self._client) as (read, write):
                yield read, write
            return
        async with (
            self._client() as client,
            streamable_http_client(url, http_client=client, max_sse_event_size=MAX_BODY_BYTES) as streams,
        ):
            yield streams

    def _client(self, *_: Any, **__: Any) -> httpx2.AsyncClient:
        from bullpen.mcp.http import Bearer, client

        server = self._server
        headers = {name: value for name, value in server.headers.items() if value}
        auth = None
        if can_log_in(server) and is_private(server.url):
            auth = Bearer(self._logins, login_key(server))
        return client(headers, auth=auth, look=self._look_at, cut=self._give_up)

    def _give_up(self, why: str) -> None:
        self._problem = why

    async def _look_at(self, response: httpx2.Response) -> None:
        """The library does not say why it was refused."""
        self.needs_auth = response.status_code == 401
        self._refusal = response.status_code if response.status_code >= 400 else 0
