"""The agent of a workspace as its configuration makes it. Immutable: a changed configuration makes a new
one, and turns that are under way keep the one they began with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from html import escape
from pathlib import Path

import msgspec

from bullpen.config import context
from bullpen.config.agents import SubAgent
from bullpen.config.commands import Command
from bullpen.config.places import Places
from bullpen.config.settings import ProviderSettings, Settings
from bullpen.config.skills import Skill
from bullpen.engine import prompt
from bullpen.engine.hooks import Hooks
from bullpen.errors import ToolFailed
from bullpen.mcp.servers import McpServers
from bullpen.providers.base import Provider
from bullpen.system import git
from bullpen.system.coalesce import Coalesced
from bullpen.tools.base import Tool

Provide = Callable[[ProviderSettings], Awaitable[Provider]]


class ConfiguredAgent:
    def __init__(
        self,
        *,
        root: Path,
        settings: Settings,
        hooks: Hooks,
        skills: Sequence[Skill],
        sub_agents: Mapping[str, SubAgent],
        commands: Sequence[Command],
        tools: Mapping[str, Tool],
        mcp: McpServers,
        provide: Provide,
        places: Places,
        env: Mapping[str, str],
    ) -> None:
        self.root = root
        self.settings = settings
        self.hooks = hooks
        self.skills = skills
        self.sub_agents = sub_agents
        self.commands = commands
        self.skill_dirs = [s.folder for s in self._usable_skills()]
        self._tools = {n: t for n, t in tools.items() if _is_offered(t, settings)}
        self._mcp = mcp
        self._provide = provide
        self._places = places
        self._env = env
        # A hundred turns may begin at once, and all look at the same few files.
        self.system_prompt = Coalesced(lambda: asyncio.to_thread(self._system_prompt))
        self.work_tree = Coalesced(lambda: asyncio.to_thread(git.look, root, env))

    def says_the_same(self, other: ConfiguredAgent) -> bool:
        """Whether the other one was made from the same words; what a project wants is told by its fingerprint."""
        return (
            msgspec.structs.replace(self.settings, wanted=())
            == msgspec.structs.replace(other.settings, wanted=())
            and self.skills == other.skills
            and self.sub_agents == other.sub_agents
            and self.commands == other.commands
        )

    async def provider(self, provider_id: str) -> Provider:
        return await self._provide(self.settings.providers[provider_id])

    def tools(self) -> Mapping[str, Tool]:
        """Ours come last, so that no server takes the place of one."""
        outside = {n: t for n, t in self._mcp.tools().items() if n not in self.settings.disabled_tools}
        return {**outside, **self._tools}

    async def prepare(self, *, interactive: bool) -> None:
        """A run that nobody watches waits for the outside tool servers; a person does not want to."""
        if not interactive:
            await self._mcp.settled()

    async def task_prompt(self, agent: SubAgent) -> str:
        return prompt.task(self.root, agent.prompt)

    def sub_agent(self, name: str) -> SubAgent:
        """The one of that name with the model that it asks for. Raises `ToolFailed`."""
        if not name:
            return SubAgent()
        found = self.sub_agents.get(name)
        if found is None:
            known = ", ".join(sorted(self.sub_agents)) or "none"
            raise ToolFailed(
                f"There is no agent {name!r}. Available: {known}. Leave it out for one that only reads."
            )
        role = {"large": self.settings.large, "small": self.settings.small}.get(found.role)
        return msgspec.structs.replace(found, model=role) if role is not None else found

    def _system_prompt(self) -> str:
        options = self.settings.options
        found = context.personal_context(options, self._places, root=self.root, env=self._env)
        found += context.project_context(self.root, options, home=self._places.home, env=self._env)
        skills = [(s.name, s.description, str(s.path)) for s in self._usable_skills() if s.model_invocable]
        text = prompt.coder(
            self.root,
            context=[(str(p), t) for p, t in found],
            skills=skills,
            agents=sorted((a.name, a.description) for a in self.sub_agents.values()),
            has_lsp=bool(self.settings.lsp) and any(tool.lsp for tool in self._tools.values()),
        )
        instructions = [
            f'<server name="{escape(name)}">\n{escape(words, quote=False)}\n</server>'
            for name, words in self._mcp.instructions()
        ]
        if instructions:
            text += "\n<mcp-instructions>\n" + "\n".join(instructions) + "\n</mcp-instructions>"
        return text

    def _usable_skills(self) -> list[Skill]:
        return [s for s in self.skills if s.trusted and not s.error]


def _is_offered(tool: Tool, settings: Settings) -> bool:
    has_servers = settings.options.auto_lsp or bool(settings.lsp)
    return tool.name not in settings.disabled_tools and (has_servers or not tool.lsp)
