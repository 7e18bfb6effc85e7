"""The project in the workspace's directory, its skills and its commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bullpen.schema.agent import CommandInfo, SkillInfo
from bullpen.schema.api import CommandUse, NeedsInit, PromptText, SkillContent, SkillToRead
from bullpen.server.routing import get, post

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace


@get("/v1/workspaces/{workspace_id}/project/needs-init", access="watch")
async def needs_init(workspace: Workspace) -> NeedsInit:
    """Say whether the project still lacks a context file."""
    return NeedsInit(needs_init=await workspace.needs_init())


@post("/v1/workspaces/{workspace_id}/project/init", access="prompt")
async def mark_initialized(workspace: Workspace) -> None:
    """Remember that the project has been asked about."""
    await workspace.mark_initialized()


@get("/v1/workspaces/{workspace_id}/project/init-prompt", access="watch")
async def init_prompt(workspace: Workspace) -> PromptText:
    """Show the prompt that writes a context file."""
    return PromptText(prompt=workspace.init_prompt())


@get("/v1/workspaces/{workspace_id}/skills", access="watch")
async def list_skills(workspace: Workspace) -> list[SkillInfo]:
    """List the skills the agent knows here."""
    return workspace.skills()


@post("/v1/workspaces/{workspace_id}/skills/read", access="watch")
async def read_skill(workspace: Workspace, body: SkillToRead) -> SkillContent:
    """Read one skill."""
    return await workspace.read_skill(body.skill_id)


@get("/v1/workspaces/{workspace_id}/commands", access="watch")
async def list_commands(workspace: Workspace) -> list[CommandInfo]:
    """List the custom commands: prompts that people keep in files."""
    return workspace.custom_commands()


@post("/v1/workspaces/{workspace_id}/commands/expand", access="watch")
async def expand_command(workspace: Workspace, body: CommandUse) -> PromptText:
    """Show the prompt that a command stands for with these arguments."""
    return workspace.expand_command(body)
