"""Asking before something leaves for the web: the whole address is shown, and every new place is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bullpen.net.urls import Url, cargo, cargo_of
from bullpen.tools.base import Reach, ToolContext


class Way:
    """One call on its way: what it asks for, and again for each place that it is sent on to."""

    def __init__(
        self,
        ctx: ToolContext,
        action: str,
        what: str,
        params: Mapping[str, Any],
        *,
        path: Path | None = None,
        paths: tuple[Path, ...] = (),
        note: str = "",
    ) -> None:
        self._ctx = ctx
        self._action = action
        self._what = what
        self._params = params
        self._path = path or ctx.root
        self._paths = paths
        self._note = note

    async def ask(self, url: Url) -> None:
        """Raises what `ToolContext.permit` raises."""
        await self._permit(f"{self._what} {url}", url, dict(self._params))

    async def moved(self, url: Url) -> None:
        """The server sends us to another place: whoever agreed to the first did not agree to this one."""
        params = {**self._params, "url": str(url)}
        await self._permit(f"{self._what} {url}, to which the first address redirects", url, params)

    async def _permit(self, description: str, url: Url, params: dict[str, Any]) -> None:
        open_way = "The connection is not encrypted." if url.scheme == "http" else ""
        words = (description, *(note for note in (self._note, cargo(url), open_way) if note))
        await self._ctx.permit(
            self._action,
            description=". ".join(word.rstrip(".") for word in words),
            params=params,
            path=self._path,
            reach=Reach(paths=self._paths, hosts=(url.authority,)),
        )


async def ask_to_search(
    ctx: ToolContext, what: str, query: str, *, host: str, params: Mapping[str, Any]
) -> None:
    """Before words leave for a search engine. Raises what `ToolContext.permit` raises."""
    words = (f"{what} at {host} for: {query}", cargo_of(query))
    await ctx.permit(
        "search",
        description=". ".join(word.rstrip(".") for word in words if word),
        params=dict(params),
        path=ctx.root,
        reach=Reach(hosts=(host,)),
    )
