"""Get a page of the web as text."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.net import pages, urls
from bullpen.net.exchange import Limits, Request
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.going_out import Way

SHOWN_BYTES = 100 * 1024
MAX_TIMEOUT_S = 120
DEFAULT_TIMEOUT_S = 30

DESCRIPTION = f"""\
Get what lies at a web address, as Markdown, as plain text, or as the HTML it is. JSON is laid out.

Only http and https, and only the public internet. Up to 5 MiB are read and the first {SHOWN_BYTES // 1024} KiB of the result are shown; for \
files, and for more of a long page, use download. The user sees the whole address and may refuse it; never put \
content of files or keys into an address."""


class FetchParams(Struct, frozen=True):
    url: Annotated[str, Meta(description="The address, with https:// or http://.")]
    format: Annotated[
        Literal["text", "markdown", "html"], Meta(description="How an HTML page is given back.")
    ]
    timeout: Annotated[
        int, Meta(description=f"Seconds for all of it, at most {MAX_TIMEOUT_S}. Default {DEFAULT_TIMEOUT_S}.")
    ] = 0


@tool("fetch", DESCRIPTION, parallel=True)
async def fetch(params: FetchParams, ctx: ToolContext) -> Outcome:
    if params.timeout < 0:
        raise ToolFailed("timeout cannot be negative")
    timeout_s = min(params.timeout, MAX_TIMEOUT_S) or DEFAULT_TIMEOUT_S
    url = urls.parse(params.url)
    shown = {"url": str(url), "format": params.format, "timeout": timeout_s}
    way = Way(ctx, "fetch", "Fetch content from", shown)
    await way.ask(url)
    reply, content = await ctx.net.get(Request(url=url), limits=Limits(time_s=timeout_s), moved=way.moved)
    text = await ctx.net.read(content, reply.content_type, form=params.format)
    text, is_cut = pages.cut(text, SHOWN_BYTES, "Use download and view for the rest.")
    if params.format == "markdown" and "html" in reply.content_type.lower():
        text = pages.fenced(text, "markdown")
    return Outcome(
        content=text or "(The page is empty.)",
        metadata={"url": str(reply.url), "content_type": reply.content_type, "bytes": reply.size},
        is_cut=is_cut,
    )
