"""Search the web."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.net.search_engines import Hit
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.going_out import ask_to_search

DEFAULT_RESULTS = 10
MAX_RESULTS = 20
MAX_QUERY = 1000


class WebSearchParams(Struct, frozen=True):
    query: Annotated[str, Meta(description="A few words, as for any search engine.")]
    max_results: Annotated[
        int, Meta(description=f"How many results. Default {DEFAULT_RESULTS}, at most {MAX_RESULTS}.")
    ] = 0


@tool(
    "web_search",
    "Search the web. Gives a numbered list of title, address and summary; read what looks useful with web_fetch. Use a few "
    "specific words, and other words when nothing fits. The query leaves this machine: never put content of files or keys "
    "into it.",
    effects=False,
    parallel=True,
    inner=True,
)
async def web_search(params: WebSearchParams, ctx: ToolContext) -> Outcome:
    query = " ".join(params.query.split())
    if not query:
        raise ToolFailed("the query is empty")
    if len(query) > MAX_QUERY:
        raise ToolFailed(f"the query has {len(query)} characters; search engines take a few words")
    if params.max_results < 0:
        raise ToolFailed("max_results cannot be negative")
    most = min(params.max_results or DEFAULT_RESULTS, MAX_RESULTS)
    if ctx.errand is None:
        shown = {"query": query, "max_results": most}
        await ask_to_search(ctx, "Search the web", query, host=ctx.net.search_host(), params=shown)
    hits = await ctx.net.search(query, most)
    if ctx.errand is not None:
        ctx.errand.learn(*(hit.url for hit in hits))
    return Outcome(content=_told(hits), metadata={"number_of_results": len(hits)})


def _told(hits: Sequence[Hit]) -> str:
    if not hits:
        return "Nothing was found. Use other or fewer words."
    return "\n\n".join(
        "\n   ".join(filter(None, (f"{n}. {hit.title}", hit.url, hit.summary)))
        for n, hit in enumerate(hits, 1)
    )
