"""What a session does otherwise than its workspace: its models, what it may spend and use, what it is told, and what it does at a
provider's limit."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from bullpen.schema.agent import SelectedModel
from bullpen.schema.wire import Wire

Dollars = Annotated[float, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
Steps = Annotated[int, Meta(ge=1)]


class Policy(Wire, frozen=True, kw_only=True):
    """What to do when a provider's limit is reached: report it (`stop`), wait for the stated reset or back off (`wait`),
    or go down a list of models (`switch`), and wait only when that is used up."""

    on_limit: Literal["stop", "wait", "switch"] = "stop"
    longest_wait_s: Seconds = 6 * 3600
    models: tuple[SelectedModel, ...] = ()


class Budget(Wire, frozen=True, kw_only=True):
    """Dollars that may be spent in one run, and in the session with all its sub-agents. 0 is no limit."""

    run: Dollars = 0
    session: Dollars = 0


class SessionChoices(Wire, frozen=True, kw_only=True):
    """What was chosen for one session; what is not set follows the workspace.

    `tools` are the only ones that it and its sub-agents have, by name, with `*` for any part of one; `instructions` stand at
    the end of the system prompt; `steps` is how many one turn may take."""

    session_id: str
    large: SelectedModel | UnsetType = UNSET
    small: SelectedModel | UnsetType = UNSET
    policy: Policy | UnsetType = UNSET
    budget: Budget | UnsetType = UNSET
    tools: tuple[str, ...] | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    steps: Steps | UnsetType = UNSET


class ChoicesChange(Wire, frozen=True, kw_only=True):
    """What is left out stays as it is; `null` goes back to what the workspace says."""

    large: SelectedModel | UnsetType | None = UNSET
    small: SelectedModel | UnsetType | None = UNSET
    policy: Policy | UnsetType | None = UNSET
    budget: Budget | UnsetType | None = UNSET
    tools: tuple[str, ...] | UnsetType | None = UNSET
    instructions: str | UnsetType | None = UNSET
    steps: Steps | UnsetType | None = UNSET
