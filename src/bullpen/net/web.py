"""The web as a workspace reaches it: what its config allows, one way to fetch, one way to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio

from bullpen.config.shape import WebSearch
from bullpen.errors import ToolFailed
from bullpen.net import urls
from bullpen.net.exchange import FetchFailed, Limits, Moved, Reply, Request, Take
from bullpen.net.pages import Form, Pages
from bullpen.net.search_engines import Engine, Hit, engine_of, read_json, read_page
from bullpen.net.urls import UrlRefused
from bullpen.system.processes import Processes

if TYPE_CHECKING:
    from bullpen.net.fetching import Fetcher

Places = frozenset[tuple[str, int]]


def _guarded(allowed: Places) -> Fetcher:
    from bullpen.net.fetching import Fetcher
    from bullpen.net.guard import Guard

    return Fetcher(Guard(allowed=allowed))


class Web:
    """`settings` gives the `tools` section of the config as it is now, `search` the search engine; `fetcher` makes one that may
    also reach those places."""

    def __init__(
        self,
        settings: Callable[[], Mapping[str, Any]],
        processes: Processes,
        *,
        search: Callable[[], WebSearch] = WebSearch,
        fetcher: Callable[[Places], Fetcher] = _guarded,
    ) -> None:
        self._settings = settings
        self._pages = Pages(processes)
        self._fetcher = fetcher
        self._search = search
        self._search_free_at = 0.0

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

    def search_host(self) -> str:
        """Where searches go. Raises `ToolFailed` when the config names none that can be used."""
        return urls.parse(engine_of(self._search())[1]).authority

    async def search(self, query: str, most: int) -> list[Hit]:
        """What the configured search engine finds. Permission is the caller's to ask for, before."""
        settings = self._search()
        engine, base = engine_of(settings)
        request = engine.request(base, settings.api_key, query, most)
        # Whoever names a search engine in their config wants it reached, wherever it stands.
        own: Places = frozenset({request.url.place}) if settings.base_url else frozenset()
        await self._pace(engine)
        taken = bytearray()

        async def take(piece: bytes) -> None:
            taken.extend(piece)

        try:
            reply = await self._fetcher(own).fetch(request, take)
        except FetchFailed as exc:
            raise _search_failed(settings, request, exc) from exc
        hits = await self._hits(engine, bytes(taken), reply.content_type)
        if not hits and engine.form == "page" and b"anomaly" in taken:
            raise _throttled(settings)
        return hits[:most]

    async def _hits(self, engine: Engine, content: bytes, content_type: str) -> list[Hit]:
        if engine.form == "json":
            return await anyio.to_thread.run_sync(read_json, content)
        return await anyio.to_thread.run_sync(read_page, await self._pages.results(content, content_type))

    async def _pace(self, engine: Engine) -> None:
        """Some engines take many requests at once for an attack."""
        now = anyio.current_time()
        begin = max(now, self._search_free_at)
        self._search_free_at = begin + engine.pace_s
        await anyio.sleep(begin - now)

    def _allowed(self) -> Places:
        try:
            return urls.places(self._settings().get("fetch", {}).get("allow_private", ()))
        except UrlRefused as exc:
            raise ToolFailed(f"tools.fetch.allow_private in the config is wrong. {exc}") from exc


def _search_failed(settings: WebSearch, request: Request, exc: FetchFailed) -> ToolFailed:
    """Without the address of the request, in which the query stands."""
    if exc.status in (202, 429):
        return _throttled(settings)
    if exc.status in (401, 403):
        return ToolFailed(
            f"The search engine {settings.provider} refused the key: the user has to look at tools.web_search.api_key."
        )
    if exc.status:
        return ToolFailed(f"{request.url.authority} answered the search with status {exc.status}.")
    return exc


def _throttled(settings: WebSearch) -> ToolFailed:
    return ToolFailed(
        f"The search engine {settings.provider} takes no more requests just now. Do without, or try again in some minutes; "
        "the user can set another one in tools.web_search."
    )
