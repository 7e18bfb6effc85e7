"""The agent of a workspace as its configuration makes it. Immutable: a changed configuration makes a new
one, and turns that are under way keep the one they began with."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from bullpen.config import context
from bullpen.config.places import Places
from bullpen.config.settings import Settings
from bullpen.config.skills import Skill
from bullpen.engine import prompt
from bullpen.engine.hooks import Hooks
from bullpen.mcp.servers import McpServers
from bullpen.providers.base import Provider
from bullpen.system.coalesce import Coalesced
from bullpen.tools.base import Tool


class ConfiguredAgent:
    def __init__(
        self,
        *,
        root: Path,
        settings: Settings,
        hooks: Hooks,
        skills: Sequence[Skill],
        tools: Mapping[str, Tool],
        mcp: McpServers,
        providers: Mapping[str, Provider],
        places: Places,
        env: Mapping[str, str],
    ) -> None:
        self.root = root
        self.settings = settings
        self.hooks = hooks
        self.skills = skills
        self.skill_dirs = [s.folder for s in self._usable_skills()]
        self._tools = {n: t for n, t in tools.items() if n not in settings.disabled_tools}
        self._mcp = mcp
        self._providers = providers
        self._places = places
        self._env = env
        # A hundred turns may begin at once, and all look at the same few files.
        self.system_prompt = Coalesced(lambda: asyncio.to_thread(self._system_prompt))

    def provider(self, provider_id: str) -> Provider:
        return self._providers[provider_id]

    def tools(self) -> Mapping[str, Tool]:
        return {**self._mcp.tools(), **self._tools}

    async def prepare(self, *, interactive: bool) -> None:
        """A run that nobody watches waits for the outside tool servers; a person does not want to."""
        if not interactive:
            await self._mcp.settled()

    async def task_prompt(self) -> str:
        return prompt.task(self.root)

    def _system_prompt(self) -> str:
        options = self.settings.options
        found = context.personal_context(options, self._places, root=self.root, env=self._env)
        found += context.project_context(self.root, options, home=self._places.home, env=self._env)
        skills = [(s.name, s.description, str(s.path)) for s in self._usable_skills() if s.model_invocable]
        text = prompt.coder(self.root, context=[(str(p), t) for p, t in found], skills=skills)
        instructions = [
            f'<server name="{name}">\n{words}\n</server>' for name, words in self._mcp.instructions()
        ]
        if instructions:
            text += "\n<mcp-instructions>\n" + "\n".join(instructions) + "\n</mcp-instructions>"
        return text

    def _usable_skills(self) -> list[Skill]:
        return [s for s in self.skills if s.trusted and not s.error]
