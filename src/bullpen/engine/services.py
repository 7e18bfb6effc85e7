"""What a turn works with, put together by the workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from bullpen.asks.permission import Permissions
from bullpen.asks.question import Questions
from bullpen.config.settings import Settings
from bullpen.engine.hooks import Hooks
from bullpen.errors import AgentNotReady
from bullpen.providers.base import Provider
from bullpen.schema.agent import Model, SelectedModel
from bullpen.store.store import Store
from bullpen.system.clock import Clock
from bullpen.system.jobs import Jobs
from bullpen.system.tally import Tally
from bullpen.tools.base import Tool


class Chosen(NamedTuple):
    """A model that was selected, what is known of it, and who serves it."""

    selected: SelectedModel
    model: Model
    provider: Provider
    prefix: str
    flat_rate: bool


class Agent(Protocol):
    """The workspace's current configuration, as a turn sees it when it begins."""

    @property
    def settings(self) -> Settings: ...

    @property
    def hooks(self) -> Hooks: ...

    @property
    def skill_dirs(self) -> Sequence[Path]: ...

    def provider(self, provider_id: str) -> Provider: ...

    def tools(self) -> Mapping[str, Tool]: ...

    async def prepare(self, *, interactive: bool) -> None:
        """Wait for what the turn should not begin without."""
        ...

    async def system_prompt(self) -> str: ...

    async def task_prompt(self) -> str: ...


class Services(msgspec.Struct, frozen=True, kw_only=True):
    store: Store
    workspace: str
    root: Path
    clock: Clock
    jitter: Callable[[], float]
    agent: Callable[[], Agent]
    permissions: Permissions
    questions: Questions
    jobs: Jobs
    tally: Tally = msgspec.field(default_factory=Tally)

    @property
    def now(self) -> int:
        return int(self.clock.time())


def choose(agent: Agent, selected: SelectedModel | None) -> Chosen:
    """Raises `AgentNotReady` when no model is selected or its provider is gone."""
    settings = agent.settings
    if selected is None or selected.provider not in settings.providers:
        raise AgentNotReady
    provider = settings.providers[selected.provider]
    return Chosen(
        selected,
        settings.model_of(selected),
        agent.provider(selected.provider),
        provider.system_prompt_prefix,
        provider.flat_rate,
    )
