"""Outside tool servers. Where the reference does not look at the workspace, an unknown one has no servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bullpen.schema.agent import McpChanges, McpInfo, McpPrompt, McpResource
from bullpen.schema.api import McpAccept, McpGetPrompt, McpName, McpReadResource, PromptText
from bullpen.schema.wire import Wire
from bullpen.server.routing import get, post

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace


class AuthUrl(Wire, frozen=True, kw_only=True):
    """Where a person signs in; empty when there is nothing to do."""

    auth_url: str = ""


class SignedOut(Wire, frozen=True, kw_only=True, omit_defaults=False):
    was_signed_in: bool


@get("/v1/workspaces/{workspace_id}/mcp/states", access="watch")
async def list_mcp_states(workspace: Workspace | None) -> dict[str, McpInfo]:
    """Show the tool servers by name."""
    return workspace.outside.mcp_states() if workspace else {}


@get("/v1/workspaces/{workspace_id}/mcp/prompts", access="watch")
async def list_mcp_prompts(workspace: Workspace) -> list[McpPrompt]:
    """List the prompts that tool servers offer."""
    return workspace.outside.mcp_prompts()


@get("/v1/workspaces/{workspace_id}/mcp/resources", access="watch")
async def list_mcp_resources(workspace: Workspace) -> list[McpResource]:
    """List what tool servers keep to be read."""
    return workspace.outside.mcp_resources()


@post("/v1/workspaces/{workspace_id}/mcp/get-prompt", access="prompt")
async def get_mcp_prompt(workspace: Workspace, body: McpGetPrompt) -> PromptText:
    """Fill in one of those prompts."""
    return PromptText(prompt=await workspace.outside.mcp_get_prompt(body))


@post("/v1/workspaces/{workspace_id}/mcp/read-resource", access="prompt")
async def read_mcp_resource(workspace: Workspace, body: McpReadResource) -> list[dict[str, Any]]:
    """Read a resource of a tool server."""
    return await workspace.outside.mcp_read_resource(body)


@post("/v1/workspaces/{workspace_id}/mcp/refresh-tools", access="prompt")
async def refresh_mcp_tools(workspace: Workspace, body: McpName) -> None:
    """Ask a tool server for its tools again."""
    await workspace.outside.mcp_refresh("tools", body.name)


@post("/v1/workspaces/{workspace_id}/mcp/refresh-prompts", access="prompt")
async def refresh_mcp_prompts(workspace: Workspace | None, body: McpName) -> None:
    """Ask a tool server for its prompts again."""
    if workspace:
        await workspace.outside.mcp_refresh("prompts", body.name)


@post("/v1/workspaces/{workspace_id}/mcp/refresh-resources", access="prompt")
async def refresh_mcp_resources(workspace: Workspace | None, body: McpName) -> None:
    """Ask a tool server for its resources again."""
    if workspace:
        await workspace.outside.mcp_refresh("resources", body.name)


@post("/v1/workspaces/{workspace_id}/mcp/restart", access="admin")
async def restart_mcp(workspace: Workspace, body: McpName) -> None:
    """End one tool server and start it again."""
    await workspace.outside.mcp_restart(body.name)


@get("/v1/workspaces/{workspace_id}/mcp/changes", access="watch")
async def list_mcp_changes(workspace: Workspace) -> list[McpChanges]:
    """Show what tool servers say and nobody has accepted, with the difference to what was accepted."""
    return await workspace.outside.mcp_changes()


@post("/v1/workspaces/{workspace_id}/mcp/accept", access="admin")
async def accept_mcp_changes(workspace: Workspace, body: McpAccept) -> None:
    """Accept what a tool server says now, as it was seen."""
    await workspace.outside.mcp_accept(body)


@get("/v1/workspaces/{workspace_id}/mcp/pending-auth", access="watch")
async def list_mcp_pending_auth(workspace: Workspace) -> list[dict[str, Any]]:
    """List the tool servers that wait for somebody to sign in."""
    return workspace.outside.mcp_pending_auth()


@get("/v1/workspaces/{workspace_id}/mcp/auth-url", access="watch")
async def show_mcp_auth_url(workspace: Workspace | None, name: str) -> AuthUrl:
    """Show where to sign in for a tool server."""
    return AuthUrl(auth_url=workspace.outside.mcp_auth_url(name) if workspace else "")


@post("/v1/workspaces/{workspace_id}/mcp/auth", access="admin")
async def sign_in_to_mcp(workspace: Workspace, body: McpName) -> dict[str, Any]:
    """Sign in to a tool server; answers when that is done."""
    await workspace.outside.mcp_auth(body.name)
    return {}


@post("/v1/workspaces/{workspace_id}/mcp/logout", access="admin")
async def sign_out_of_mcp(workspace: Workspace, body: McpName) -> SignedOut:
    """Forget the login to a tool server."""
    return SignedOut(was_signed_in=await workspace.outside.mcp_logout(body.name))


@post("/v1/workspaces/{workspace_id}/mcp/docker/enable", access="admin")
async def enable_docker_mcp(workspace: Workspace) -> None:
    """Use Docker's tool servers."""
    await workspace.outside.mcp_docker(enabled=True)


@post("/v1/workspaces/{workspace_id}/mcp/docker/disable", access="admin")
async def disable_docker_mcp(workspace: Workspace) -> None:
    """Stop using Docker's tool servers."""
    await workspace.outside.mcp_docker(enabled=False)
