"""Workspaces: open, look, follow, leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from bullpen.errors import BadRequest, StoreError, StoreFull
from bullpen.schema import agent as nouns
from bullpen.schema.api import CurrentSession, FavoriteModel, NewWorkspace, RememberedModels
from bullpen.server.exchange import Connection
from bullpen.server.routes.system import valid_client_id
from bullpen.server.routing import ClientId, Header, delete, get, post, stream
from bullpen.server.sse import stream_events

if TYPE_CHECKING:
    from bullpen.workspace.host import Host
    from bullpen.workspace.workspace import Workspace


@get("/v1/workspaces", access="watch")
async def list_workspaces(host: Host) -> list[nouns.Workspace]:
    """List the open workspaces."""
    return [workspace.describe() for workspace in host.all()]


# A 503 here tells the reference client that the server is going away, so a locked store must not say it.
@post("/v1/workspaces", access="prompt", statuses={StoreFull: 507, StoreError: 500})
async def create_workspace(host: Host, body: NewWorkspace) -> nouns.Workspace:
    """Open the workspace at a path, or join it when it is open."""
    if not body.path:
        raise BadRequest("path is required")
    return await host.create(msgspec.structs.replace(body, client_id=valid_client_id(body.client_id)))


@get("/v1/workspaces/{workspace_id}", access="watch")
async def show_workspace(workspace: Workspace) -> nouns.Workspace:
    """Show one workspace."""
    return workspace.describe()


@delete("/v1/workspaces/{workspace_id}", access="watch")
async def release_workspace(host: Host, workspace_id: str, client_id: ClientId) -> None:
    """Give up this client's claim. An unknown workspace is fine."""
    await host.release(workspace_id, client_id)


@post("/v1/workspaces/{workspace_id}/current-session", access="watch")
async def set_current_session(workspace: Workspace, client_id: ClientId, body: CurrentSession) -> None:
    """Say which session this client looks at; an empty id means none."""
    workspace.set_current_session(client_id, body.session_id)


@get("/v1/workspaces/{workspace_id}/config", access="watch")
async def show_config(workspace: Workspace) -> dict[str, Any]:
    """Show the merged configuration, without secrets."""
    return workspace.config()


@get("/v1/workspaces/{workspace_id}/providers", access="watch")
async def list_providers(workspace: Workspace) -> list[nouns.CatalogueProvider] | None:
    """List the providers that could be configured, and the model servers that answer on this machine."""
    return await workspace.models.offers() or None


@get("/v1/workspaces/{workspace_id}/models", access="watch")
async def list_remembered_models(workspace: Workspace) -> RememberedModels:
    """List the models that were picked lately, and the favourites."""
    return await workspace.models.remembered()


@post("/v1/workspaces/{workspace_id}/models/favorite", access="admin")
async def favor_model(workspace: Workspace, body: FavoriteModel) -> None:
    """Add a model to the favourites, or take it from them."""
    await workspace.models.favor(body)


@get("/v1/workspaces/{workspace_id}/clients", access="watch")
async def list_clients(workspace: Workspace) -> list[nouns.ClientInfo]:
    """List the clients of the workspace and what they look at."""
    return workspace.clients()


@stream("/v1/workspaces/{workspace_id}/events", access="watch", media="text/event-stream")
async def follow_events(
    connection: Connection,
    host: Host,
    workspace: Workspace,
    client_id: ClientId,
    deltas: str = "",
    after: str = "",
    name: str = "",
    last_event_id: Annotated[str, Header("Last-Event-ID")] = "",
    client_name: Annotated[str, Header("Bullpen-Client-Name")] = "",
) -> None:
    """Follow everything that happens in the workspace, as server-sent events.

    The frames are described by `/v1/events.json`. `Last-Event-ID` or `after` replays what was missed,
    `deltas=1` sends growing text in pieces.
    """
    await stream_events(
        *connection,
        host,
        workspace,
        client_id,
        deltas=deltas in {"1", "true"},
        after=last_event_id or after or None,
        name=client_name or name,
    )
