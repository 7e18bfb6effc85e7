"""All that waits for a person's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bullpen.schema.asks import PermissionRequest, QuestionBatch
from bullpen.schema.wire import Wire
from bullpen.server.routing import get

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace


class OpenAsks(Wire, frozen=True, kw_only=True):
    """What `GET …/asks` answers."""

    permissions: tuple[PermissionRequest, ...]
    questions: tuple[QuestionBatch, ...]


@get("/v1/workspaces/{workspace_id}/asks", access="watch", answer=OpenAsks)
async def list_asks(workspace: Workspace) -> bytes:
    """List the open permissions and questions."""
    return await workspace.asks()
