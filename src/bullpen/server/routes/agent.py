"""The agent: what it is, what it is asked, and how it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from bullpen.schema.agent import AgentInfo, SelectedModel
from bullpen.schema.api import AgentInit, Dropped, NewPrompt, PromptAccepted, ShellDone, ShellRun
from bullpen.schema.session import Session
from bullpen.server.routing import MAX_ATTACHED_BODY_BYTES, Author, Header, get, post

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace


@get("/v1/workspaces/{workspace_id}/agent", access="watch")
async def show_agent(workspace: Workspace) -> AgentInfo:
    """Show whether the agent is ready, whether it is busy, and its model."""
    return await workspace.agent_info()


@post(
    "/v1/workspaces/{workspace_id}/agent",
    access="prompt",
    status=202,
    max_body_bytes=MAX_ATTACHED_BODY_BYTES,
)
async def accept_prompt(
    workspace: Workspace,
    body: NewPrompt,
    idempotency_key: Annotated[str, Header("Idempotency-Key")] = "",
    author: Author = "",
) -> PromptAccepted:
    """Accept a prompt. It is safe from here on; everything else comes as events."""
    return await workspace.accept(body, idempotency_key=idempotency_key, author=author)


@post("/v1/workspaces/{workspace_id}/agent/init", access="prompt")
async def init_agent(workspace: Workspace, body: AgentInit = AgentInit()) -> None:  # noqa: B008  # it is frozen
    """Read the configuration again; a running agent is left alone."""
    await workspace.init_agent(body.interactive)


@post("/v1/workspaces/{workspace_id}/agent/update", access="prompt")
async def update_agent(workspace: Workspace) -> None:
    """Take models and tools from the configuration again."""
    await workspace.update_agent()


@get("/v1/workspaces/{workspace_id}/agent/default-small-model", access="watch")
async def default_small_model(workspace: Workspace, provider_id: str = "") -> SelectedModel:
    """Show which small model a provider would be used with."""
    return workspace.default_small_model(provider_id)


@get("/v1/workspaces/{workspace_id}/agent/sessions/{session_id}", access="watch")
async def show_agent_session(workspace: Workspace, session_id: str) -> Session:
    """Say whether a session is busy. Only id, title and that are filled."""
    return await workspace.agent_session(session_id)


@post("/v1/workspaces/{workspace_id}/agent/sessions/{session_id}/cancel", access="prompt")
async def cancel(workspace: Workspace, session_id: str) -> Dropped:
    """Stop the turn and drop what waits behind it."""
    return await workspace.cancel(session_id)


@post("/v1/workspaces/{workspace_id}/agent/sessions/{session_id}/summarize", access="prompt")
async def summarize(workspace: Workspace, session_id: str) -> None:
    """Replace what was said so far by a summary; answers when it is written."""
    await workspace.summarize(session_id)


@post("/v1/workspaces/{workspace_id}/agent/sessions/{session_id}/shell", access="admin")
async def run_shell(workspace: Workspace, session_id: str, body: ShellRun) -> ShellDone:
    """Run a person's own command in the workspace and keep it in the session."""
    return await workspace.shell(session_id, body)
