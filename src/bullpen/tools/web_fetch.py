"""Read a page of the web, on an errand."""

from __future__ import annotations

from typing import Annotated

import anyio
from msgspec import Meta, Struct

from bullpen.net import pages, urls
from bullpen.net.exchange import Request
from bullpen.net.urls import Url
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.errands import INLINE_BYTES, Errand
from bullpen.tools.going_out import Way


class WebFetchParams(Struct, frozen=True):
    url: Annotated[str, Meta(description="The address, with https:// or http://.")]


@tool(
    "web_fetch",
    "Read a page of the web as Markdown, without menus and the like. A page of more than "
    f"{INLINE_BYTES // 1000} KB is laid down as a file, to be searched with grep and read with view. Pages that a search found or a page "
    "links to are read at once; use their addresses exactly as they stand.",
    effects=False,
    parallel=True,
    inner=True,
)
async def web_fetch(params: WebFetchParams, ctx: ToolContext) -> Outcome:
    url = urls.parse(params.url)
    way = Way(ctx, "fetch", "Fetch content from", {"url": str(url)})
    if ctx.errand is None or not ctx.errand.knows(url):
        await way.ask(url)
    text, page = await read_page(ctx, url, way, ctx.errand)
    return Outcome(content=await shown(text, page, ctx.errand), metadata={"url": str(page)})


async def read_page(ctx: ToolContext, url: Url, way: Way, errand: Errand | None) -> tuple[str, Url]:
    """A page as Markdown, and where it came from in the end. What it links to is known from now on."""
    reply, content = await ctx.net.get(Request(url=url), moved=way.moved)
    text = await ctx.net.read(content, reply.content_type, form="markdown", content_only=True)
    if errand is not None:
        await anyio.to_thread.run_sync(errand.learn_links, reply.url, text)
    return text, reply.url


async def shown(text: str, page: Url, errand: Errand | None) -> str:
    """The page itself, or where it lies."""
    size = len(text.encode("utf-8", "replace"))
    if size <= INLINE_BYTES:
        return text or "(The page is empty.)"
    if errand is None:
        return pages.cut(text, INLINE_BYTES)[0]
    path = await anyio.to_thread.run_sync(errand.lay_down, text)
    return f"{page} is long ({size} bytes) and lies in {path}. Search it with grep, and read parts of it with view."
