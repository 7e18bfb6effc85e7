"""What the sidebar tells and no event does: the model, changed files, language and tool servers, skills, jobs, people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from bullpen.client.workspace import Room
from bullpen.errors import BullpenError
from bullpen.present.inert import inert_line
from bullpen.schema.agent import AgentInfo, ClientInfo, LspInfo, McpInfo, SkillInfo
from bullpen.schema.changes import TurnSummary
from bullpen.schema.jobs import Job

LSP_STATES = ("not started", "starting", "ready", "in error", "stopped", "disabled")

SHOWN = 6
"""So many of each are listed."""


@dataclass(frozen=True, slots=True)
class Facts:
    """As they were when they were asked for last; what could not be had stays as it was."""

    agent: AgentInfo | None = None
    lsps: dict[str, LspInfo] = field(default_factory=dict)
    mcps: dict[str, McpInfo] = field(default_factory=dict)
    skills: tuple[SkillInfo, ...] = ()
    jobs: tuple[Job, ...] = ()
    people: tuple[ClientInfo, ...] = ()
    turns: tuple[TurnSummary, ...] = ()

    async def fetched(self, room: Room) -> Facts:
        """All of them anew, side by side."""
        found: dict[str, Any] = {}

        async def ask(name: str) -> None:
            with suppress(BullpenError):
                found[name] = await _ASKED[name](room)

        async with anyio.create_task_group() as tasks:
            for name in _ASKED:
                tasks.start_soon(ask, name)
        return replace(self, **found)

    def sections(self) -> Iterator[tuple[str, list[str]]]:
        """What there is to tell, by heading; a section without lines is left out."""
        for title, lines in (
            ("Changed files", self._files()),
            ("Jobs", [f"● {inert_line(job.command)}" for job in self.jobs if job.running]),
            ("Language servers", [_lsp_line(lsp) for lsp in self.lsps.values()]),
            ("Tool servers", [_mcp_line(mcp) for mcp in self.mcps.values()]),
            ("Skills", [_skill_line(skill) for skill in self.skills]),
            ("Here", [inert_line(person.name) or person.client_id[:8] for person in self.people]),
        ):
            if lines:
                more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
                yield title, [*lines[:SHOWN], *more]

    def _files(self) -> list[str]:
        """The files of turns that are not undone, the latest first, each once."""
        kept = (turn for turn in self.turns if turn.state in ("changed", "partly"))
        return list(dict.fromkeys(inert_line(path) for turn in kept for path in turn.paths))


def _lsp_line(lsp: LspInfo) -> str:
    count = f", {lsp.diagnostic_count} to mend" if lsp.diagnostic_count else ""
    return f"{inert_line(lsp.name)}  {LSP_STATES[lsp.state]}{count}"


def _mcp_line(mcp: McpInfo) -> str:
    tools = f", {mcp.tool_count} {'tool' if mcp.tool_count == 1 else 'tools'}" if mcp.tool_count else ""
    held = f", {mcp.held_count} held back" if mcp.held_count else ""
    return f"{inert_line(mcp.name)}  {inert_line(mcp.state)}{tools}{held}"


def _skill_line(skill: SkillInfo) -> str:
    return f"{inert_line(skill.name)}{'  not trusted' if skill.untrusted else ''}"


async def _mcps(room: Room) -> dict[str, McpInfo]:
    return (await room.call("GET", "/mcp/states")).read(dict[str, McpInfo])


async def _turns(room: Room) -> tuple[TurnSummary, ...]:
    return tuple(await room.changes()) if room.current_session else ()


_ASKED: dict[str, Callable[[Room], Awaitable[Any]]] = {
    "agent": Room.agent,
    "lsps": Room.language_servers,
    "mcps": _mcps,
    "skills": Room.skills,
    "jobs": Room.jobs,
    "people": Room.clients,
    "turns": _turns,
}
