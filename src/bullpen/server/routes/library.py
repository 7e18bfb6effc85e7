"""Sessions as a library: found in all workspaces, forked, rewound, thrown away and had back, sent and taken in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.schema.library import (
    Fork,
    KnownHit,
    KnownSession,
    RewindPreview,
    RewindRequest,
    Rewound,
    TrashedSession,
)
from bullpen.schema.session import Session
from bullpen.schema.transfer import Imported, SessionDocument
from bullpen.server.routing import MAX_ATTACHED_BODY_BYTES, Author, Exact, delete, get, post

if TYPE_CHECKING:
    from bullpen.workspace.host import Host
    from bullpen.workspace.workspace import Workspace

Limit = Annotated[int, Meta(ge=1, le=200)]
"""A page that a person looks through; `before` gives the next."""

ALL_OF_IT = Fork()


@get("/v1/sessions", access="watch")
async def list_all_sessions(
    host: Host, state: str = "", limit: Limit = 50, before: str = "", path: str = "", title: str = ""
) -> list[KnownSession]:
    """List the sessions of all workspaces that this server keeps, the one used last first: those in a `state`, of the workspace at a `path`,
    with a word in their `title`, after the session `before`."""
    return await host.shelves.sessions(state=state, before=before, limit=limit, path=path, title=title)


@get("/v1/sessions/{session_id}/export", access="watch")
async def export_any_session(host: Host, session_id: str) -> SessionDocument:
    """Hand out a session of any workspace as one document, also when the workspace is not open."""
    return await host.shelves.export(session_id)


@get("/v1/search", access="watch")
async def search_everywhere(host: Host, q: str, limit: Limit = 20, path: str = "") -> list[KnownHit]:
    """Find messages of all workspaces, or of the one at a `path`, that hold the given words."""
    return await host.shelves.search(q, limit, path=path)


@get("/v1/trash", access="watch")
async def list_trash_at(host: Host, path: str) -> list[TrashedSession]:
    """List what is in the trash of the workspace at a path, also when it is not open."""
    return await host.shelves.trash(path)


@post("/v1/workspaces/{workspace_id}/sessions/{session_id}/fork", access="prompt")
async def fork_session(workspace: Workspace, session_id: str, body: Fork = ALL_OF_IT) -> Session:
    """Open a session that begins like another: with all of it, or with all up to a message."""
    return await workspace.library.fork(session_id, body)


@get("/v1/workspaces/{workspace_id}/sessions/{session_id}/rewind", access="watch")
async def preview_rewind(workspace: Workspace, session_id: str, message_id: str) -> RewindPreview:
    """Show what going back to before a message would cut off and undo. Nothing is changed."""
    return await workspace.library.preview_rewind(session_id, message_id)


@post("/v1/workspaces/{workspace_id}/sessions/{session_id}/rewind", access="prompt")
async def rewind_session(
    workspace: Workspace, session_id: str, body: RewindRequest, author: Author = ""
) -> Rewound:
    """Go back to before a message, in the conversation and, if wanted, in the files. What is cut off is kept in the trash."""
    return await workspace.library.rewind(session_id, body, author)


@get("/v1/workspaces/{workspace_id}/trash", access="watch")
async def list_trash(workspace: Workspace) -> list[TrashedSession]:
    """List the sessions that were deleted and can be had back, the latest first."""
    return await workspace.library.trash()


@post("/v1/workspaces/{workspace_id}/trash/{session_id}/restore", access="prompt")
async def restore_session(workspace: Workspace, session_id: str) -> Session:
    """Have a session of the trash back."""
    return await workspace.library.restore(session_id)


@delete("/v1/workspaces/{workspace_id}/trash/{session_id}", access="prompt")
async def forget_session(workspace: Workspace, session_id: str) -> None:
    """Delete a session of the trash for good."""
    await workspace.library.forget(session_id)


@get("/v1/workspaces/{workspace_id}/sessions/{session_id}/export", access="watch")
async def export_session(workspace: Workspace, session_id: str, redact: str = "") -> SessionDocument:
    """Hand out a session as one document, with `redact=1` without what looks like a secret."""
    return await workspace.library.export(session_id, redact=redact in {"1", "true"})


@post(
    "/v1/workspaces/{workspace_id}/sessions/import",
    access="prompt",
    max_body_bytes=MAX_ATTACHED_BODY_BYTES,
)
async def import_session(workspace: Workspace, body: Annotated[SessionDocument, Exact()]) -> Imported:
    """Make a session of a document. One of an origin that was imported before is not made again."""
    return await workspace.library.take_in(body)
