"""What turns changed in the files, and undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.schema.changes import TurnSummary, Undone, UndoPreview, UndoRequest
from bullpen.schema.wire import Int64
from bullpen.server.routing import Author, get, post

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace

PageSize = Annotated[int, Meta(ge=1, le=200)]
"""Each turn may name fifty files: two hundred turns are a page of half a MiB."""


EVERYTHING = UndoRequest()


@get("/v1/workspaces/{workspace_id}/sessions/{session_id}/changes", access="watch")
async def list_changes(
    workspace: Workspace, session_id: str, limit: PageSize = 50, before: Int64 = 0
) -> list[TurnSummary]:
    """List the turns of a session that changed files, the latest first: those before a turn, if one is given."""
    return await workspace.changes(session_id, limit=limit, before=before)


@get("/v1/workspaces/{workspace_id}/sessions/{session_id}/changes/{turn}/undo", access="watch")
async def preview_undo(workspace: Workspace, session_id: str, turn: Int64) -> UndoPreview:
    """Show what undoing a turn's changes would do now. Nothing is changed."""
    return await workspace.preview_undo(session_id, turn)


@post("/v1/workspaces/{workspace_id}/sessions/{session_id}/changes/{turn}/undo", access="prompt")
async def undo_changes(
    workspace: Workspace, session_id: str, turn: Int64, body: UndoRequest = EVERYTHING, author: Author = ""
) -> Undone:
    """Undo a turn's changes: all, or some files, or some hunks. Where somebody changed the same place since, nothing is done."""
    return await workspace.undo(session_id, turn, body, author)


@get("/v1/workspaces/{workspace_id}/sessions/{session_id}/changes/redo", access="watch")
async def preview_redo(workspace: Workspace, session_id: str) -> UndoPreview:
    """Show what taking back the session's last undo would do now. Nothing is changed."""
    return await workspace.preview_redo(session_id)


@post("/v1/workspaces/{workspace_id}/sessions/{session_id}/changes/redo", access="prompt")
async def redo_changes(
    workspace: Workspace, session_id: str, body: UndoRequest = EVERYTHING, author: Author = ""
) -> Undone:
    """Take back the session's last undo: all of it, or some files, or some hunks."""
    return await workspace.redo(session_id, body, author)
