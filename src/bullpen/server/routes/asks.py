"""All that waits for a person's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bullpen.schema.asks import OpenAsks
from bullpen.server.routing import get

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace


@get("/v1/workspaces/{workspace_id}/asks", access="watch", answer=OpenAsks)
async def list_asks(workspace: Workspace) -> bytes:
    """List the open permissions and questions."""
    return await workspace.asks()
