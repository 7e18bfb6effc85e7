"""The agent: what it is, what it is asked, and how it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.schema.agent import AgentInfo, Group, SelectedModel, SpentRow, ToolCallsRow
from bullpen.schema.api import AgentInit, Dropped, NewPrompt, PromptAccepted, ShellDone, ShellRun, Woken
from bullpen.schema.events import RunWaiting
from bullpen.schema.runs import Run
from bullpen.schema.session import Session
from bullpen.server.routing import MAX_ATTACHED_BODY_BYTES, Author, Header, get, post

Since = Annotated[int, Meta(ge=0)]
"""Seconds since the epoch."""

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
    client: Annotated[str, Header("Bullpen-Client-Id")] = "",
) -> PromptAccepted:
    """Accept a prompt. It is safe from here on; everything else comes as events."""
    return await workspace.accept(body, idempotency_key=idempotency_key, author=author, client=client)


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


@post("/v1/workspaces/{workspace_id}/agent/sessions/{session_id}/summarize/undo", access="prompt")
async def undo_summary(workspace: Workspace, session_id: str) -> Session:
    """Take the last summary back: the model sees again what it stands for."""
    return await workspace.undo_summary(session_id)


@get("/v1/workspaces/{workspace_id}/agent/waiting", access="watch")
async def list_waiting(workspace: Workspace) -> list[RunWaiting]:
    """List the turns that wait for their model's host, with the reason and until when."""
    return await workspace.waiting()


@post("/v1/workspaces/{workspace_id}/agent/sessions/{session_id}/wake", access="prompt")
async def wake(workspace: Workspace, session_id: str) -> Woken:
    """End a turn's wait: the model is asked again now."""
    return await workspace.wake(session_id)


@get("/v1/workspaces/{workspace_id}/agent/runs", access="watch")
async def list_runs(workspace: Workspace) -> list[Run]:
    """List the prompts that wait or run, in the order in which they were accepted."""
    return await workspace.runs()


@get("/v1/workspaces/{workspace_id}/agent/runs/{run_id}", access="watch")
async def show_run(workspace: Workspace, run_id: str) -> Run:
    """Show what has become of a prompt, with its end when it has ended."""
    return await workspace.run(run_id)


@get("/v1/workspaces/{workspace_id}/agent/spending", access="watch")
async def show_spending(workspace: Workspace, by: Group = "day", since: Since = 0) -> list[SpentRow]:
    """Sum up what model calls cost since a time, by day, session, turn, model, person, agent, tool or purpose."""
    return await workspace.spending(by, since)


@get("/v1/workspaces/{workspace_id}/agent/tool_calls", access="watch")
async def show_tool_calls(workspace: Workspace, since: Since = 0) -> list[ToolCallsRow]:
    """Count how often each tool was called since a time, how many of the calls failed, and how long they took."""
    return await workspace.tool_calls(since)


@post("/v1/workspaces/{workspace_id}/agent/sessions/{session_id}/shell", access="admin")
async def run_shell(workspace: Workspace, session_id: str, body: ShellRun) -> ShellDone:
    """Run a person's own command in the workspace and keep it in the session."""
    return await workspace.shell(session_id, body)
