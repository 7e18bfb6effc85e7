"""The outside servers of a workspace as clients see them: tool servers (MCP) and language servers."""

from __future__ import annotations

from typing import Any, Literal

from bullpen.errors import BadRequest
from bullpen.lsp.servers import LspServers
from bullpen.mcp.servers import McpServers
from bullpen.schema.agent import LspInfo, McpChanges, McpInfo, McpPrompt, McpResource
from bullpen.schema.api import McpAccept, McpGetPrompt, McpReadResource
from bullpen.system import paths


class OutsideServers:
    """What a client can ask of them. They are started and ended by the workspace."""

    def __init__(self, mcp: McpServers, lsp: LspServers) -> None:
        self._mcp = mcp
        self._lsp = lsp

    # Language servers

    def lsps(self) -> dict[str, LspInfo]:
        return self._lsp.states()

    def diagnostics(self, name: str) -> dict[str, list[Any]]:
        return self._lsp.diagnostics(name)

    async def lsp_start(self, path: str) -> None:
        """Start what knows a file of the workspace. Returns at once; states tell the rest."""
        if "\0" in path:
            raise BadRequest("a path cannot hold a NUL byte")
        await self._lsp.start(paths.resolve(self._lsp.root, path))

    async def lsp_stop(self) -> None:
        await self._lsp.stop()

    # MCP

    def mcp_states(self) -> dict[str, McpInfo]:
        return self._mcp.states()

    def mcp_prompts(self) -> list[McpPrompt]:
        return self._mcp.prompts()

    def mcp_resources(self) -> list[McpResource]:
        return self._mcp.resources()

    async def mcp_get_prompt(self, body: McpGetPrompt) -> str:
        return await self._mcp.get_prompt(body.client_id, body.prompt_id, body.args)

    async def mcp_read_resource(self, body: McpReadResource) -> list[dict[str, Any]]:
        return await self._mcp.read_resource(body.name, body.uri)

    async def mcp_refresh(self, kind: Literal["tools", "prompts", "resources"], name: str) -> None:
        await self._mcp.refresh(kind, name)

    async def mcp_restart(self, name: str) -> None:
        self._mcp.restart(name)

    async def mcp_changes(self) -> list[McpChanges]:
        return await self._mcp.changes()

    async def mcp_accept(self, body: McpAccept) -> None:
        await self._mcp.accept(body.name, body.fingerprint)

    def mcp_pending_auth(self) -> list[dict[str, str]]:
        return [{"name": name, "url": url} for name, url in self._mcp.pending_logins()]

    def mcp_auth_url(self, name: str) -> str:
        return self._mcp.login_url(name)

    async def mcp_auth(self, name: str) -> None:
        await self._mcp.log_in(name)

    async def mcp_logout(self, name: str) -> bool:
        return await self._mcp.log_out(name)

    async def mcp_docker(self, enabled: bool) -> None:
        del enabled
        raise BadRequest("the Docker MCP gateway is not supported; configure it as an ordinary MCP server")
