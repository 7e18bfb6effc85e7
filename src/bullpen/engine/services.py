"""What a turn works with, put together by the workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from bullpen.asks.permission import Permissions
from bullpen.asks.question import Questions
from bullpen.config.agents import SubAgent
from bullpen.config.settings import Settings
from bullpen.engine.children import Children
from bullpen.engine.choices import Choices
from bullpen.engine.history import Histories
from bullpen.engine.hook_points import HookPoints
from bullpen.engine.hooks import Hooks
from bullpen.engine.retry import Waits
from bullpen.engine.scenes import Scenes
from bullpen.errors import AgentNotReady, ConfigError
from bullpen.files.tracking import Tracking
from bullpen.lsp.servers import LspServers
from bullpen.net.web import Web
from bullpen.providers.base import Provider
from bullpen.schema.agent import Model, SelectedModel
from bullpen.schema.choices import SessionChoices
from bullpen.store.prompts import Prompt
from bullpen.store.store import Store
from bullpen.system.clock import Clock
from bullpen.system.git import Snapshot
from bullpen.system.jobs import Jobs
from bullpen.system.tally import Tally
from bullpen.tools.base import About, Tool


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

    async def provider(self, provider_id: str) -> Provider:
        """The one that serves a configured provider's models; its code may have to be loaded first."""
        ...

    def tools(self) -> Mapping[str, Tool]: ...

    async def prepare(self, *, interactive: bool) -> None:
        """Wait for what the turn should not begin without."""
        ...

    async def system_prompt(self) -> str: ...

    async def work_tree(self) -> Snapshot | None:
        """The state of the work tree that the workspace lies in, if git knows of one."""
        ...

    async def task_prompt(self, agent: SubAgent) -> str: ...

    def sub_agent(self, name: str) -> SubAgent:
        """The defined one, or without a name the one that only reads. Raises `ToolFailed`."""
        ...


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
    net: Web
    about: About
    tracking: Tracking
    lsp: LspServers
    choices: Choices
    waits: Waits
    hook_points: HookPoints
    children: Children = msgspec.field(default_factory=Children)
    histories: Histories = msgspec.field(default_factory=Histories)
    scenes: Scenes = msgspec.field(default_factory=Scenes)
    tally: Tally = msgspec.field(default_factory=Tally)

    @property
    def now(self) -> int:
        return int(self.clock.time())


def offered(agent: Agent, prompt: Prompt, own: SessionChoices) -> dict[str, Tool]:
    """The tools that a prompt's turn and its sub-agents choose from. Inner ones come with the tool that sends for them."""
    found = {n: t for n, t in agent.tools().items() if prompt.interactive or not t.interactive}
    if own.tools is UNSET:
        return found
    return {n: t for n, t in found.items() if t.inner or any(fnmatchcase(n, each) for each in own.tools)}


async def choose(agent: Agent, selected: SelectedModel | None) -> Chosen:
    """Raises `AgentNotReady` when no model is selected, `ConfigError` when the one that is cannot be used."""
    settings = agent.settings
    if selected is None:
        raise AgentNotReady
    provider = settings.providers.get(selected.provider)
    if provider is None:
        raise ConfigError(
            f"the model {selected.model!r} cannot be used: provider {selected.provider!r} is not configured; "
            "choose another model, or configure it"
        )
    model = settings.model_of(selected)
    return Chosen(
        msgspec.structs.replace(selected, reasoning_effort=effort_for(model, selected)),
        model,
        await agent.provider(selected.provider),
        provider.system_prompt_prefix,
        provider.flat_rate,
    )


def preferred(own: SelectedModel | UnsetType, usual: SelectedModel | None) -> SelectedModel | None:
    """The session's own choice. One that names no model changes how the usual one is asked, for example its effort."""
    if own is UNSET or (usual is None and not own.model):
        return usual
    if own.model or usual is None:
        return own
    said = {name: value for name in own.__struct_fields__ if (value := getattr(own, name)) not in (UNSET, "")}
    return msgspec.structs.replace(usual, **said)


def effort_for(model: Model, selected: SelectedModel) -> str | UnsetType:
    """What was asked for if the model knows it, else its default, else the first it knows. A model of which no levels are
    known is asked as the person said."""
    levels = model.reasoning_levels or ()
    if not levels or selected.reasoning_effort in levels:
        return selected.reasoning_effort
    return model.default_reasoning_effort if model.default_reasoning_effort in levels else levels[0]
