"""Files that sessions changed, and files the agent has read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bullpen.schema.api import FileRead
from bullpen.schema.session import HistoryItem
from bullpen.server.routing import get, post

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace


@get("/v1/workspaces/{workspace_id}/sessions/{session_id}/history", access="watch")
async def list_history(workspace: Workspace, session_id: str) -> list[HistoryItem]:
    """List every version of the files a session changed, the oldest first."""
    return await workspace.history(session_id)


@get("/v1/workspaces/{workspace_id}/sessions/{session_id}/filetracker/files", access="watch")
async def list_read_files(workspace: Workspace, session_id: str) -> list[str]:
    """List the files a session has read."""
    return await workspace.read_files(session_id)


@post("/v1/workspaces/{workspace_id}/filetracker/read", access="prompt")
async def mark_read(workspace: Workspace, body: FileRead) -> None:
    """Remember that a session has read a file."""
    await workspace.mark_read(body.session_id, body.path)


@get("/v1/workspaces/{workspace_id}/filetracker/lastread", access="watch")
async def last_read(workspace: Workspace, session_id: str = "", path: str = "") -> str:
    """Say when a session last read a file; the zero time means never."""
    return await workspace.last_read(session_id, path)
