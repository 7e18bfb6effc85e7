"""Files of the workspace for completion and prompts, files that sessions changed, and files the agent has read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.schema.api import FileContent, FileHit, FileRead
from bullpen.schema.session import HistoryItem
from bullpen.server.routing import get, post

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace

MostFiles = Annotated[int, Meta(ge=1, le=200)]


@get("/v1/workspaces/{workspace_id}/files", access="watch")
async def find_files(workspace: Workspace, query: str = "", limit: MostFiles = 20) -> list[FileHit]:
    """Find files and folders whose path fits a few letters, the best first; hidden and ignored ones are left out."""
    return await workspace.browsing.find(query, limit)


@get("/v1/workspaces/{workspace_id}/files/content", access="prompt")
async def read_file(workspace: Workspace, path: str, lines: str = "") -> FileContent:
    """Read a file of the workspace as an attachment: text, some lines of it (`10-20`), an image, or what a folder holds."""
    return await workspace.browsing.read(path, lines)


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
