"""Permissions: answers to asks, standing grants, rules, and skipping them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from bullpen.errors import BadRequest
from bullpen.schema.api import ExplainCall, NewRule, PermissionAnswer, Resolved, Skip
from bullpen.schema.asks import Explanation, Grant, PermissionAction, Rule
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
async def set_skip(workspace: Workspace, body: Skip, author: Author = "") -> None:
    """Skip permissions from now on, or ask for them again."""
    await workspace.set_skip(body.skip, author)


@get("/v1/workspaces/{workspace_id}/permissions/grants", access="watch")
async def list_grants(workspace: Workspace) -> list[Grant]:
    """List the standing approvals."""
    return await workspace.grants()


@delete("/v1/workspaces/{workspace_id}/permissions/grants/{grant_id}", access="approve")
async def revoke_grant(workspace: Workspace, grant_id: str) -> None:
    """Take a standing approval back."""
    await workspace.revoke(grant_id)


@get("/v1/workspaces/{workspace_id}/permissions/rules", access="watch")
async def list_rules(workspace: Workspace) -> list[Rule]:
    """List the rules in force: those of the config, then those that people made."""
    return await workspace.rules()


@post("/v1/workspaces/{workspace_id}/permissions/rules", access="admin")
async def add_rule(workspace: Workspace, body: NewRule, author: Author = "") -> Rule:
    """Make a rule that allows, asks about or denies calls."""
    return await workspace.add_rule(body, author)


@delete("/v1/workspaces/{workspace_id}/permissions/rules/{rule_id}", access="admin")
async def remove_rule(workspace: Workspace, rule_id: str) -> None:
    """Take a rule back. Those of the config are changed there."""
    await workspace.remove_rule(rule_id)


@post("/v1/workspaces/{workspace_id}/permissions/explain", access="watch")
async def explain_call(workspace: Workspace, body: ExplainCall, author: Author = "") -> Explanation:
    """Say what would become of a call, and why. Nothing is run."""
    return await workspace.explain(body, author)
