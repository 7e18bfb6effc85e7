"""What a session does otherwise than its workspace: its models, what it may spend, and what it does at a provider's limit."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from bullpen.schema.agent import SelectedModel
from bullpen.schema.wire import Wire

Dollars = Annotated[float, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]


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
    """What was chosen for one session; what is not set follows the workspace."""

    session_id: str
    large: SelectedModel | UnsetType = UNSET
    small: SelectedModel | UnsetType = UNSET
    policy: Policy | UnsetType = UNSET
    budget: Budget | UnsetType = UNSET


class ChoicesChange(Wire, frozen=True, kw_only=True):
    """What is left out stays as it is; `null` goes back to what the workspace says."""

    large: SelectedModel | UnsetType | None = UNSET
    small: SelectedModel | UnsetType | None = UNSET
    policy: Policy | UnsetType | None = UNSET
    budget: Budget | UnsetType | None = UNSET
