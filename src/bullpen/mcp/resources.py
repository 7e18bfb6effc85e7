"""The tools with which a model finds and reads what servers keep: `list_mcp_resources` and `read_mcp_resource`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from bullpen.asks.display import visible
from bullpen.mcp.results import outcome_of_parts, shorten
from bullpen.tools.base import Outcome, Tool, ToolContext, tool

if TYPE_CHECKING:
    from mcp_types import Resource, ResourceTemplate

LINE_BYTES = 600
"""A title, an address and a description; a server that says more about one resource is cut."""

ServerName = Annotated[str, Meta(description="The name of the MCP server.")]

Ask = Callable[[str, Callable[[Any], Awaitable[Any]]], Awaitable[Any]]
"""Ask a server by its name. Raises `ToolFailed`."""

ListAll = Callable[[str], Awaitable["tuple[list[Resource], list[ResourceTemplate]]"]]


class ListParams(msgspec.Struct, frozen=True):
    mcp_name: ServerName


class ReadParams(msgspec.Struct, frozen=True):
    mcp_name: ServerName
    uri: Annotated[str, Meta(description="The address of the resource, as list_mcp_resources shows it.")]


def resource_tools(list_all: ListAll, ask: Ask, names: str) -> list[Tool]:
    """Both, for the servers of these names."""

    @tool(
        "list_mcp_resources",
        f"List what an MCP server keeps to be read: title, address, description, type and size. Servers: {names}.",
        effects=False,
        parallel=True,
    )
    async def list_mcp_resources(params: ListParams, ctx: ToolContext) -> Outcome:
        resources, templates = await list_all(params.mcp_name)
        lines = [_line(r.title or r.name, r.uri, r.description, r.mime_type, r.size) for r in resources]
        lines += [
            _line(t.title or t.name, f"{t.uri_template} (fill in the braces)", t.description, t.mime_type)
            for t in templates
        ]
        text = "\n".join(lines)
        return Outcome(content=shorten(text) or f"The MCP server {params.mcp_name!r} has no resources.")

    @tool(
        "read_mcp_resource",
        f"Read one resource of an MCP server, by its address. Servers: {names}.",
        effects=False,
        parallel=True,
    )
    async def read_mcp_resource(params: ReadParams, ctx: ToolContext) -> Outcome:
        await ctx.permit(
            "read",
            description=f"Read {params.uri} of the MCP server {params.mcp_name}",
            params=msgspec.to_builtins(params),
            path=ctx.root,
        )
        result = await ask(params.mcp_name, lambda client: client.read_resource(params.uri))
        return outcome_of_parts(result.contents, supports_media=ctx.supports_images)

    return [list_mcp_resources, read_mcp_resource]


def _line(
    title: str, uri: str, description: str | None, mime_type: str | None, size: int | None = None
) -> str:
    about = [mime_type or "", f"{size} bytes" if size is not None else ""]
    told = ", ".join(filter(None, about))
    text = f"{title}: {uri}" + (f" ({told})" if told else "") + (f" – {description}" if description else "")
    return shorten(visible(" ".join(text.split())), LINE_BYTES)
