"""Questions the agent puts to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bullpen.schema.api import QuestionAnswer, QuestionCancel, Resolved
from bullpen.server.routing import Author, post

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace


@post("/v1/workspaces/{workspace_id}/questions/answer", access="prompt")
async def answer_questions(workspace: Workspace, body: QuestionAnswer, author: Author = "") -> Resolved:
    """Answer a batch of questions; only the first answer counts."""
    return Resolved(resolved=await workspace.answer_questions(body, author))


@post("/v1/workspaces/{workspace_id}/questions/cancel", access="prompt")
async def cancel_questions(
    workspace: Workspace,
    body: QuestionCancel = QuestionCancel(),  # noqa: B008  # it is frozen
    author: Author = "",
) -> Resolved:
    """Close a batch without answers; without an id, the oldest one."""
    return Resolved(resolved=await workspace.cancel_questions(body.batch_request_id, author))
