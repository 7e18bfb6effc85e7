"""Changes to the configuration, and trust in a project. Each one that succeeds is announced once as `config_changed`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.errors import BadRequest
from bullpen.schema.api import (
    ConfigCompact,
    ConfigModel,
    ConfigRemove,
    ConfigSet,
    ImportedToken,
    KeyChecked,
    KeyToCheck,
    LoginCode,
    LoginState,
    ProviderKey,
    RefreshOauth,
    Trust,
    TrustGiven,
)
from bullpen.server.routing import delete, get, post

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace

Wait = Annotated[int, Meta(ge=0, le=30)]
"""Seconds."""


@post("/v1/workspaces/{workspace_id}/config/set", access="admin")
async def set_field(workspace: Workspace, body: ConfigSet) -> None:
    """Set one field, named by its dotted path."""
    await workspace.config_set(body)


@post("/v1/workspaces/{workspace_id}/config/remove", access="admin")
async def remove_field(workspace: Workspace, body: ConfigRemove) -> None:
    """Remove one field; an absent one is fine."""
    await workspace.config_remove(body)


@post("/v1/workspaces/{workspace_id}/config/model", access="admin")
async def select_model(workspace: Workspace, body: ConfigModel) -> None:
    """Choose the large or the small model."""
    await workspace.config_model(body)


@post("/v1/workspaces/{workspace_id}/config/compact", access="admin")
async def set_compact(workspace: Workspace, body: ConfigCompact) -> None:
    """Choose the compact layout of the terminal."""
    await workspace.config_compact(body)


@post("/v1/workspaces/{workspace_id}/config/provider-key", access="admin")
async def set_provider_key(workspace: Workspace, body: ProviderKey) -> None:
    """Keep a provider's key or token."""
    _check_key(body)
    await workspace.provider_key(body)


@post("/v1/workspaces/{workspace_id}/config/check-key", access="admin")
async def check_key(workspace: Workspace, body: KeyToCheck) -> KeyChecked:
    """Ask a provider's host whether it takes a key. The key is not kept."""
    return await workspace.models.check_key(body)


@post("/v1/workspaces/{workspace_id}/config/import-copilot", access="admin")
async def import_copilot(workspace: Workspace) -> ImportedToken:
    """Take over the token of another program, where there is one."""
    return await workspace.models.import_copilot()


@post("/v1/workspaces/{workspace_id}/config/copilot-login", access="admin")
async def begin_copilot_login(workspace: Workspace) -> LoginCode:
    """Begin a login to GitHub Copilot, or join the one under way: a person has to enter the code at the address."""
    return await workspace.models.copilot_login.begin_login()


@get("/v1/workspaces/{workspace_id}/config/copilot-login", access="admin")
async def show_copilot_login(workspace: Workspace, wait: Wait = 0) -> LoginState:
    """Show how far the login is. With `wait` the answer comes when it has ended, at the latest after so many seconds."""
    return await workspace.models.copilot_login.login_state(wait)


@delete("/v1/workspaces/{workspace_id}/config/copilot-login", access="admin")
async def cancel_copilot_login(workspace: Workspace) -> None:
    """End the login that is under way, if one is."""
    workspace.models.copilot_login.cancel_login()


@post("/v1/workspaces/{workspace_id}/config/refresh-oauth", access="admin")
async def refresh_oauth(workspace: Workspace, body: RefreshOauth) -> None:
    """Get a fresh token for a provider."""
    await workspace.models.refresh_oauth(body)


@get("/v1/workspaces/{workspace_id}/trust", access="watch")
async def show_trust(workspace: Workspace) -> Trust:
    """Show what the project's files would do, and whether a person lets them."""
    return workspace.upkeep.trust()


@post("/v1/workspaces/{workspace_id}/trust", access="admin")
async def give_trust(workspace: Workspace, body: TrustGiven) -> Trust:
    """Trust what was shown with this fingerprint, all or some items of it; 409 when it is something else by now."""
    return await workspace.upkeep.give_trust(body)


@delete("/v1/workspaces/{workspace_id}/trust", access="admin")
async def revoke_trust(workspace: Workspace, item: str = "") -> Trust:
    """Trust the project's files no longer, or one item of them. What a server trusts by itself stays trusted."""
    return await workspace.upkeep.revoke_trust(item)


def _check_key(body: ProviderKey) -> None:
    match body.kind:
        case "string":
            if not isinstance(body.api_key, str):
                raise BadRequest("decode api key string: api_key is not a string")
        case "oauth":
            if not isinstance(body.api_key, dict) or not isinstance(body.api_key.get("access_token"), str):
                raise BadRequest("decode api key oauth token: api_key is not a token with an access_token")
        case kind:
            raise BadRequest(f'unsupported api key kind "{kind}"')
