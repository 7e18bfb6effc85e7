"""The web as a workspace reaches it: what its config allows, one way to fetch, one way to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bullpen.errors import ToolFailed
from bullpen.net.fetching import Fetcher, Limits, Moved, Reply, Request, Take
from bullpen.net.guard import Guard, places
from bullpen.net.pages import Form, Pages
from bullpen.net.urls import UrlRefused
from bullpen.system.processes import Processes

Places = frozenset[tuple[str, int]]


def _guarded(allowed: Places) -> Fetcher:
    return Fetcher(Guard(allowed=allowed))


class Web:
    """`settings` gives the `tools` section of the config as it is now; `fetcher` makes one that may also reach those places."""

    def __init__(
        self,
        settings: Callable[[], Mapping[str, Any]],
        processes: Processes,
        *,
        fetcher: Callable[[Places], Fetcher] = _guarded,
    ) -> None:
        self._settings = settings
        self._pages = Pages(processes)
        self._fetcher = fetcher

    async def fetch(
        self, request: Request, take: Take, *, limits: Limits | None = None, moved: Moved | None = None
    ) -> Reply:
        """See `Fetcher.fetch`."""
        return await self._fetcher(self._allowed()).fetch(request, take, limits=limits, moved=moved)

    async def get(
        self, request: Request, *, limits: Limits | None = None, moved: Moved | None = None
    ) -> tuple[Reply, bytes]:
        """The answer as a whole."""
        taken = bytearray()

        async def take(piece: bytes) -> None:
            taken.extend(piece)

        reply = await self.fetch(request, take, limits=limits, moved=moved)
        return reply, bytes(taken)

    async def read(self, content: bytes, content_type: str, *, form: Form, content_only: bool = False) -> str:
        """See `Pages.read`."""
        return await self._pages.read(content, content_type, form=form, content_only=content_only)

    def _allowed(self) -> Places:
        try:
            return places(self._settings().get("fetch", {}).get("allow_private", ()))
        except UrlRefused as exc:
            raise ToolFailed(f"tools.fetch.allow_private in the config is wrong. {exc}") from exc
