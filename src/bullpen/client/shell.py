"""A person's own shell command in a session."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bullpen.schema.api import ShellDone, ShellRun

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


async def run_shell(room: Room, command: str, *, session: str = "") -> ShellDone:
    """Run a command in the workspace, without the agent, and keep it in the session; returns when it has ended. Raises
    `Forbidden` for a client that may not."""
    path = f"/agent/sessions/{session or room.current_session}/shell"
    answer = await room.call("POST", path, ShellRun(command=command), timeout_s=math.inf, once=True)
    return answer.read(ShellDone)
