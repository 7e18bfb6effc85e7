"""Language servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bullpen.schema.agent import LspInfo
from bullpen.schema.api import LspStart
from bullpen.server.routing import get, post

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace


@get("/v1/workspaces/{workspace_id}/lsps", access="watch")
async def list_language_servers(workspace: Workspace) -> dict[str, LspInfo]:
    """Show the language servers by name."""
    return workspace.outside.lsps()


@get("/v1/workspaces/{workspace_id}/lsps/{name}/diagnostics", access="watch")
async def show_diagnostics(workspace: Workspace, name: str) -> dict[str, list[Any]]:
    """Show what a language server complains about, by document."""
    return workspace.outside.diagnostics(name)


@post("/v1/workspaces/{workspace_id}/lsps/start", access="prompt")
async def start_language_servers(workspace: Workspace, body: LspStart) -> None:
    """Start the language servers that know a file."""
    await workspace.outside.lsp_start(body.path)


@post("/v1/workspaces/{workspace_id}/lsps/stop", access="prompt")
async def stop_language_servers(workspace: Workspace) -> None:
    """Stop all language servers."""
    await workspace.outside.lsp_stop()
