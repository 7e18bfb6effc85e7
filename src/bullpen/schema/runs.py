"""A prompt from its acceptance to its end, for whoever comes later and wants to know."""

from __future__ import annotations

from typing import Literal

from bullpen.schema.events import RunComplete
from bullpen.schema.wire import Int64, Wire

RunState = Literal["accepted", "active", "done", "failed", "cancelled", "interrupted"]


class Run(Wire, frozen=True, kw_only=True):
    """`end` is there for one that has ended, as long as the log remembers it."""

    run_id: str
    session_id: str
    state: RunState
    prompt: str
    author: str = ""
    created_at: Int64
    end: RunComplete | None = None
