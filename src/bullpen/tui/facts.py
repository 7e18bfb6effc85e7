"""What the sidebar tells and no event does: the model, changed files, language and tool servers, skills, jobs, people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import anyio

from bullpen.errors import BullpenError
from bullpen.schema.agent import (
    AgentInfo,
    CatalogueProvider,
    ClientInfo,
    LspInfo,
    McpInfo,
    Model,
    SelectedModel,
    SkillInfo,
    Workspace,
)
from bullpen.schema.changes import TurnSummary
from bullpen.schema.choices import SessionChoices
from bullpen.schema.jobs import Job

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


LSP_STATES = ("not started", "starting", "ready", "failed", "stopped", "off")
"""By their numbers on the wire."""


@dataclass(frozen=True, slots=True)
class Facts:
    """As they were when they were asked for last; what could not be had stays as it was."""

    session_id: str = ""
    workspace: Workspace | None = None
    agent: AgentInfo | None = None
    choices: SessionChoices | None = None
    catalogue: tuple[CatalogueProvider, ...] = ()
    lsps: dict[str, LspInfo] = field(default_factory=dict)
    mcps: dict[str, McpInfo] = field(default_factory=dict)
    skills: tuple[SkillInfo, ...] = ()
    jobs: tuple[Job, ...] = ()
    people: tuple[ClientInfo, ...] = ()
    turns: tuple[TurnSummary, ...] = ()

    async def fetched(self, room: Room) -> Facts:
        """All of them anew, side by side."""
        here = self if self.session_id == room.current_session else replace(self, choices=None, turns=())
        found: dict[str, Any] = {"session_id": room.current_session}

        async def ask(name: str) -> None:
            with suppress(BullpenError):
                found[name] = await _ASKED[name](room)

        async with anyio.create_task_group() as tasks:
            for name in _ASKED:
                tasks.start_soon(ask, name)
        fresh = replace(here, **found)
        if fresh.choices and fresh.choices.large and not fresh.catalogue:
            with suppress(BullpenError):
                return replace(fresh, catalogue=tuple(await room.providers()))
        return fresh

    @property
    def model(self) -> tuple[SelectedModel, Model] | None:
        """The model that answers in this session, and what is known of it; None while there is none."""
        if self.choices and self.choices.large:
            chosen = self.choices.large
            known = (
                model
                for provider in self.catalogue
                if provider.id == chosen.provider
                for model in provider.models
                if model.id == chosen.model
            )
            return chosen, next(known, Model(id=chosen.model))
        if self.agent is None or not self.agent.is_ready:
            return None
        return self.agent.model_cfg, self.agent.model


async def _workspace(room: Room) -> Workspace:
    return (await room.call("GET", "")).read(Workspace)


async def _mcps(room: Room) -> dict[str, McpInfo]:
    return (await room.call("GET", "/mcp/states")).read(dict[str, McpInfo])


async def _turns(room: Room) -> tuple[TurnSummary, ...]:
    return tuple(await room.changes()) if room.current_session else ()


async def _choices(room: Room) -> SessionChoices | None:
    return await room.choices(room.current_session) if room.current_session else None


_ASKED: dict[str, Callable[[Room], Awaitable[Any]]] = {
    "agent": lambda room: room.agent(),
    "workspace": _workspace,
    "choices": _choices,
    "lsps": lambda room: room.language_servers(),
    "mcps": _mcps,
    "skills": lambda room: room.skills(),
    "jobs": lambda room: room.jobs(),
    "people": lambda room: room.clients(),
    "turns": _turns,
}
