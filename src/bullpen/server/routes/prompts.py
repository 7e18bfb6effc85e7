"""Prompts that wait for their turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bullpen.schema.agent import QueuedPrompt
from bullpen.schema.api import QueueEdit
from bullpen.schema.wire import Int64
from bullpen.server.routing import delete, get, patch, post

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace


@get("/v1/workspaces/{workspace_id}/agent/sessions/{session_id}/prompts", access="watch")
async def list_queue(workspace: Workspace, session_id: str) -> list[QueuedPrompt]:
    """List the waiting prompts in the order they will run."""
    return await workspace.queue(session_id)


@get("/v1/workspaces/{workspace_id}/agent/sessions/{session_id}/prompts/queued", access="watch")
async def count_queue(workspace: Workspace, session_id: str) -> int:
    """Say how many prompts wait."""
    return len(await workspace.queue(session_id))


@get("/v1/workspaces/{workspace_id}/agent/sessions/{session_id}/prompts/list", access="watch")
async def list_queued_texts(workspace: Workspace, session_id: str) -> list[str] | None:
    """List the texts of the waiting prompts; null when there are none."""
    return [prompt.text for prompt in await workspace.queue(session_id)] or None


@post("/v1/workspaces/{workspace_id}/agent/sessions/{session_id}/prompts/clear", access="prompt")
async def clear_queue(workspace: Workspace, session_id: str) -> None:
    """Drop the waiting prompts; the turn goes on."""
    await workspace.clear_queue(session_id)


@patch("/v1/workspaces/{workspace_id}/agent/sessions/{session_id}/prompts/{seq}", access="prompt")
async def edit_queued(workspace: Workspace, session_id: str, seq: Int64, body: QueueEdit) -> QueuedPrompt:
    """Change the text of a waiting prompt, or its place."""
    return await workspace.edit_queued(session_id, seq, body)


@delete("/v1/workspaces/{workspace_id}/agent/sessions/{session_id}/prompts/{seq}", access="prompt")
async def withdraw_queued(workspace: Workspace, session_id: str, seq: Int64) -> None:
    """Take one waiting prompt back."""
    await workspace.withdraw(session_id, seq)
