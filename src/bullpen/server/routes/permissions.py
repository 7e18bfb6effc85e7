"""Permissions: answers to asks, standing grants, and skipping them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from bullpen.errors import BadRequest
from bullpen.schema.api import PermissionAnswer, Resolved, Skip
from bullpen.schema.asks import Grant, PermissionAction
from bullpen.server.routing import Author, delete, get, post

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace

ACTIONS = frozenset(get_args(PermissionAction))


@post("/v1/workspaces/{workspace_id}/permissions/grant", access="approve")
async def answer_permission(workspace: Workspace, body: PermissionAnswer, author: Author = "") -> Resolved:
    """Answer a permission; only the first answer counts."""
    if body.action not in ACTIONS:
        raise BadRequest("invalid permission action")
    return Resolved(resolved=await workspace.grant(body, author))


@get("/v1/workspaces/{workspace_id}/permissions/skip", access="watch")
async def show_skip(workspace: Workspace) -> Skip:
    """Say whether permissions are skipped."""
    return Skip(skip=workspace.skip())


@post("/v1/workspaces/{workspace_id}/permissions/skip", access="admin")
async def set_skip(workspace: Workspace, body: Skip) -> None:
    """Skip permissions from now on, or ask for them again."""
    await workspace.set_skip(body.skip)


@get("/v1/workspaces/{workspace_id}/permissions/grants", access="watch")
async def list_grants(workspace: Workspace) -> list[Grant]:
    """List the standing approvals."""
    return await workspace.grants()


@delete("/v1/workspaces/{workspace_id}/permissions/grants/{grant_id}", access="approve")
async def revoke_grant(workspace: Workspace, grant_id: str) -> None:
    """Take a standing approval back."""
    await workspace.revoke(grant_id)
