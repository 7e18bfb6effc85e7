"""What all servers of a workspace share, and the words for how one of them is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from bullpen.mcp.logins import LoginBook
from bullpen.mcp.pins import PinBook
from bullpen.system.clock import Clock

if TYPE_CHECKING:
    from bullpen.mcp.supervisor import Supervisor

State = Literal["disabled", "starting", "connected", "error", "needs auth"]
Change = Literal["state_changed", "tools_list_changed", "prompts_list_changed", "resources_list_changed"]


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What all servers of a workspace share. `changed` hears of every change, after it took place."""

    root: Path
    env: Mapping[str, str]
    clock: Clock
    restart_delay_s: float
    pins: PinBook
    logins: LoginBook
    changed: Callable[[Supervisor, Change], None]
