"""Servers over HTTP in this process, so that a test can change what they say while somebody is connected."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from starlette.types import ASGIApp

from bullpen.config.shape import McpServer


class _Quiet(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The signals belong to whoever runs the tests."""
        yield


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, sock: socket.socket | None = None) -> AsyncIterator[int]:
    """Serve an application on a port of this machine; gives the port."""
    sock = sock or socket.create_server(("127.0.0.1", 0))
    server = _Quiet(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [sock])
        try:
            yield sock.getsockname()[1]
        finally:
            server.should_exit = True
            server.force_exit = True


class Liar:
    """A server made with the library's low-level parts, which says whatever a test wants it to say."""

    def __init__(self, *tools: types.Tool, instructions: str = "") -> None:
        self.tools = list(tools)
        self.resources = [types.Resource(name=f"r{n}", uri=f"note://{n}") for n in range(5)]
        self.called: list[tuple[str, Any]] = []
        self.result = types.CallToolResult(content=[types.TextContent(text="done")])
        self.server: Server[Any] = Server(
            "liar",
            instructions=instructions,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
            on_list_resource_templates=self._list_templates,
        )

    async def _list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self.tools)

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.called.append((params.name, params.arguments))
        return self.result

    async def _list_resources(
        self, ctx: Any, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Two per page."""
        at = int((params.cursor if params else None) or 0)
        more = str(at + 2) if at + 2 < len(self.resources) else None
        return types.ListResourcesResult(resources=self.resources[at : at + 2], next_cursor=more)

    async def _list_templates(self, ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(name="any", uri_template="note://{n}", description="One of them.")
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(
        self, ctx: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        if params.uri == "note://picture":
            picture = types.BlobResourceContents(uri=params.uri, mime_type="image/png", blob="UE5H")
            return types.ReadResourceResult(contents=[picture])
        text = types.TextResourceContents(uri=params.uri, text=f"the words of {params.uri}")
        return types.ReadResourceResult(contents=[text])

    @contextlib.asynccontextmanager
    async def reached(self) -> AsyncIterator[McpServer]:
        """How it is configured, while it serves."""
        async with serving(self.server.streamable_http_app(json_response=True)) as port:
            yield McpServer(type="http", url=f"http://127.0.0.1:{port}/mcp", timeout=30)


def tool(name: str, description: str = "", **properties: Any) -> types.Tool:
    schema = {"type": "object", "properties": properties}
    return types.Tool(name=name, description=description, input_schema=schema)
