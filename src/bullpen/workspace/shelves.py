"""The sessions of all workspaces of the server's own database, whether they are open or not."""

from __future__ import annotations

from typing import get_args

from bullpen.errors import BadRequest
from bullpen.schema.library import KnownHit, KnownSession, SessionState, TrashedSession
from bullpen.schema.transfer import SessionDocument
from bullpen.store import library, transfer
from bullpen.store.library import Wanted
from bullpen.store.store import Store
from bullpen.store.tx import Tx


class Shelves:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def sessions(
        self, *, state: str, before: str, limit: int, path: str, title: str
    ) -> list[KnownSession]:
        """Raises `BadRequest` for a state that there is not."""
        if state and state not in get_args(SessionState):
            raise BadRequest(f"state: one of {', '.join(get_args(SessionState))}")
        wanted = Wanted(limit, state, before, path, title)
        return await self._store.read(lambda tx: library.known(tx, wanted))

    async def search(self, query: str, limit: int, *, path: str) -> list[KnownHit]:
        return await self._store.read(lambda tx: library.find(tx, query, limit, path=path))

    async def trash(self, path: str) -> list[TrashedSession]:
        return await self._store.read(lambda tx: library.thrown_away(tx, path))

    async def export(self, session_id: str) -> SessionDocument:
        """Raises `SessionNotFound`."""

        async def work(tx: Tx) -> SessionDocument:
            workspace, root = await library.place_of(tx, session_id)
            return await transfer.export(tx, workspace, root, session_id)

        return await self._store.read(work)
