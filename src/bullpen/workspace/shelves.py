"""The sessions of all workspaces of the server's own database, whether they are open or not."""

from __future__ import annotations

from typing import get_args

from bullpen.errors import BadRequest
from bullpen.schema.library import KnownHit, KnownSession, SessionState
from bullpen.store import library
from bullpen.store.store import Store


class Shelves:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def sessions(self, *, state: str, before: str, limit: int) -> list[KnownSession]:
        """Raises `BadRequest` for a state that there is not."""
        if state and state not in get_args(SessionState):
            raise BadRequest(f"state: one of {', '.join(get_args(SessionState))}")
        return await self._store.read(lambda tx: library.known(tx, state, before, limit))

    async def search(self, query: str, limit: int) -> list[KnownHit]:
        return await self._store.read(lambda tx: library.find(tx, query, limit))
