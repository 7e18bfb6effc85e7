"""The sessions of all workspaces of a server, looked at without opening any of them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import quote

from bullpen.client.autostart import ensure_server
from bullpen.client.http import Connection
from bullpen.client.locate import find_address, find_token, user_directory
from bullpen.schema.library import KnownHit, KnownSession, SessionState, TrashedSession
from bullpen.schema.transfer import SessionDocument
from bullpen.system.address import UnixAddress

PAGE = 200
"""As many sessions as the server tells at a time."""


class Shelf:
    """Made by `open_shelf`, or over a connection that is there."""

    def __init__(self, server: Connection) -> None:
        self._server = server

    async def sessions(
        self,
        *,
        state: SessionState | str = "",
        path: str = "",
        title: str = "",
        limit: int = 50,
        before: str = "",
    ) -> list[KnownSession]:
        """The sessions, the one used last first: those in a state, of the workspace at a path, with this in their title."""
        found: list[KnownSession] = []
        while len(found) < limit:
            size = min(PAGE, limit - len(found))
            params = {"state": state, "path": path, "title": title, "limit": str(size), "before": before}
            page = await self._server.get("/sessions", list[KnownSession], params=params)
            found += page
            if len(page) < size:
                break
            before = page[-1].session.id
        return found

    async def search(self, words: str, *, limit: int = 20, path: str = "") -> list[KnownHit]:
        """The messages that hold all these words, best first; of the workspace at a path, if one is named."""
        params = {"q": words, "limit": str(limit), "path": path}
        return await self._server.get("/search", list[KnownHit], params=params)

    async def trash(self, path: str) -> list[TrashedSession]:
        """What was deleted in the workspace at a path and can be had back, the latest first."""
        return await self._server.get("/trash", list[TrashedSession], params={"path": path})

    async def export(self, session: str) -> SessionDocument:
        """A session as one document. Raises `SessionNotFound`."""
        return await self._server.get(f"/sessions/{quote(session, safe='')}/export", SessionDocument)


@asynccontextmanager
async def open_shelf(
    *, host: str | None = None, env: Mapping[str, str] = os.environ
) -> AsyncIterator[Shelf | None]:
    """Ask the server, which is started when it does not run; None when there is nothing yet that it could tell of."""
    address = find_address(host, env)
    if isinstance(address, UnixAddress):
        data = user_directory(env, "BULLPEN_GLOBAL_DATA", "XDG_DATA_HOME", ".local/share")
        if not address.path.exists() and not (data / "bullpen.db").exists():
            yield None
            return
        await ensure_server(address, env)
    async with Connection(address, token=find_token(address, env)) as server:
        yield Shelf(server)
