"""A real MCP server for the tests, run as `python server.py`, or `python server.py http PORT` / `sse PORT`."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("probe", instructions="Say please.")
PIXEL = b"\x89PNG not really"


@server.tool()
def echo(text: str, times: int | None = None) -> str:
    """Say it again."""
    return " ".join([text] * (times or 1))


@server.tool()
def fail() -> str:
    raise ToolError("the well is dry")


@server.tool()
async def slow(mark: str) -> str:
    """Takes for ever; leaves a file when it is cancelled."""
    try:
        await anyio.sleep(60)
    finally:
        with open(mark, "w") as file:
            file.write("cancelled")
    return "done"


@server.tool()
async def patient(steps: int, ctx: Context) -> str:
    """Takes its time, and says so."""
    for step in range(steps):
        await anyio.sleep(0.2)
        await ctx.report_progress(step, steps)
    return "at last"


@server.tool(structured_output=False)
def image() -> list[Any]:
    return ["a picture", Image(data=PIXEL, format="png"), Image(data=b"second", format="png")]


@server.tool()
def flood(size: int) -> str:
    return "x" * size


@server.tool()
def variable(name: str) -> str:
    return os.environ.get(name, "(unset)")


@server.tool()
async def grow(ctx: Context) -> str:
    """Offer one tool more from now on."""
    server.add_tool(lambda: "new", name="late", description="Came late.")
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.prompt(title="Review")
def review(path: str) -> str:
    """Look at a file."""
    return f"Please review {path}"


@server.resource("note://today", name="today", mime_type="text/plain")
def note() -> str:
    return "buy milk"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["http", port]:
            server.run("streamable-http", port=int(port))
        case ["sse", port]:
            server.run("sse", port=int(port))
        case _:
            server.run()
