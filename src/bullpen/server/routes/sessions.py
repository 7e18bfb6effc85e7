"""Sessions and their messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.schema.api import NewPin, NewSession, SessionChange
from bullpen.schema.choices import ChoicesChange, SessionChoices
from bullpen.schema.message import Message
from bullpen.schema.session import Pin, SearchHit, Session
from bullpen.server.routing import Author, delete, get, post, put

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace

Limit = Annotated[int, Meta(ge=1, le=200)]
"""Two hundred hits are more than anybody reads; better words find the rest."""

PageSize = Annotated[int, Meta(ge=0, le=1000)]
"""Messages may be large: a thousand of them are already more than anybody wants at once."""


@get("/v1/workspaces/{workspace_id}/sessions", access="watch")
async def list_sessions(workspace: Workspace) -> list[Session]:
    """List the sessions, the latest first."""
    return await workspace.sessions()


@post("/v1/workspaces/{workspace_id}/sessions", access="prompt")
async def create_session(workspace: Workspace, body: NewSession) -> Session:
    """Open an empty session."""
    return await workspace.create_session(body.title)


@get("/v1/workspaces/{workspace_id}/sessions/{session_id}", access="watch")
async def show_session(workspace: Workspace, session_id: str) -> Session:
    """Show one session."""
    return await workspace.session(session_id)


@put("/v1/workspaces/{workspace_id}/sessions/{session_id}", access="prompt")
async def change_session(workspace: Workspace, session_id: str, body: SessionChange) -> Session:
    """Change title and todos. Counters, cost and summary are the server's."""
    return await workspace.change_session(session_id, body)


@get("/v1/workspaces/{workspace_id}/sessions/{session_id}/choices", access="watch")
async def show_choices(workspace: Workspace, session_id: str) -> SessionChoices:
    """Show what this session does otherwise than its workspace."""
    return await workspace.choices(session_id)


@put("/v1/workspaces/{workspace_id}/sessions/{session_id}/choices", access="prompt")
async def change_choices(workspace: Workspace, session_id: str, body: ChoicesChange) -> SessionChoices:
    """Choose model, effort, policy and budget for this session alone; `null` takes a choice back."""
    return await workspace.change_choices(session_id, body)


@get("/v1/workspaces/{workspace_id}/sessions/{session_id}/pins", access="watch")
async def list_pins(workspace: Workspace, session_id: str) -> list[Pin]:
    """List the notes that summaries of this session carry word for word."""
    return await workspace.pins(session_id)


@post("/v1/workspaces/{workspace_id}/sessions/{session_id}/pins", access="prompt")
async def add_pin(workspace: Workspace, session_id: str, body: NewPin, author: Author = "") -> Pin:
    """Pin a note to the session."""
    return await workspace.pin(session_id, body.text, author)


@delete("/v1/workspaces/{workspace_id}/sessions/{session_id}/pins/{pin_id}", access="prompt")
async def remove_pin(workspace: Workspace, session_id: str, pin_id: str) -> None:
    """Take a note off again."""
    await workspace.unpin(session_id, pin_id)


@delete("/v1/workspaces/{workspace_id}/sessions/{session_id}", access="prompt")
async def delete_session(workspace: Workspace, session_id: str, author: Author = "") -> None:
    """Delete a session with its messages and file versions."""
    await workspace.delete_session(session_id, author)


@get("/v1/workspaces/{workspace_id}/sessions/{session_id}/messages", access="watch", answer=list[Message])
async def list_messages(
    workspace: Workspace, session_id: str, limit: PageSize = 0, before: str = ""
) -> bytes:
    """List the messages of a session, the oldest first: all, or the last `limit` of those before a message."""
    return await workspace.messages(session_id, limit=limit, before=before)


@get(
    "/v1/workspaces/{workspace_id}/sessions/{session_id}/messages/user", access="watch", answer=list[Message]
)
async def list_user_messages(workspace: Workspace, session_id: str) -> bytes:
    """List what people said in a session, the latest first."""
    return await workspace.user_messages(session_id)


@get("/v1/workspaces/{workspace_id}/messages/user", access="watch", answer=list[Message])
async def list_all_user_messages(workspace: Workspace) -> bytes:
    """List what people said in all sessions, the latest first."""
    return await workspace.user_messages(None)


@get("/v1/workspaces/{workspace_id}/search", access="watch")
async def search(workspace: Workspace, q: str, limit: Limit = 20) -> list[SearchHit]:
    """Find messages that hold the given words."""
    return await workspace.search(q, limit)
