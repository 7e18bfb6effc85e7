"""The configuration of a workspace: read, reloaded, changed through clients, and shown without secrets.

It is read in a thread, because it lies in files and may run the user's own commands. `agent` is what turns
begin with; after a change there is a new one, and a turn under way keeps the old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bullpen.config import context, load, places, redact, skills, write
from bullpen.config.merge import merge
from bullpen.config.settings import ProviderSettings, Settings
from bullpen.config.skills import Skill
from bullpen.engine import prompt
from bullpen.engine.hooks import EVENT, Hooks
from bullpen.errors import BadRequest
from bullpen.mcp.servers import McpServers
from bullpen.providers import registry
from bullpen.providers.base import Provider
from bullpen.schema.agent import SkillInfo, SkillState
from bullpen.schema.api import SkillContent
from bullpen.system.processes import Processes
from bullpen.tools.base import Tool
from bullpen.workspace.agent import ConfiguredAgent

MakeProvider = Callable[[ProviderSettings], Provider]


class Configuration:
    """`agent` is there after the first `reload`."""

    def __init__(
        self,
        *,
        workspace: str,
        root: Path,
        data_dir: Path,
        env: Mapping[str, str],
        trusted: bool,
        tools: Callable[[], Mapping[str, Tool]],
        make_provider: MakeProvider,
        processes: Processes,
        mcp: McpServers,
    ) -> None:
        self.agent: ConfiguredAgent
        self._root = root
        self._data_dir = data_dir
        self._env = env
        self._trusted = trusted
        self._tools = tools
        self._make_provider = make_provider
        self._processes = processes
        self._mcp = mcp
        self._places = places.Places.of(env)
        self._state_file = places.workspace_file(data_dir, workspace)
        self._chosen: dict[str, Any] = {}
        """What clients chose for all workspaces while this one was open. Here it counts at once, even where a
        file that somebody wrote by hand would outrank it from the next opening on."""
        self._built: dict[str, tuple[ProviderSettings, Provider]] = {}
        self._init_flag = places.init_flag(data_dir, workspace)

    @property
    def settings(self) -> Settings:
        return self.agent.settings

    async def reload(self) -> None:
        settings, found, providers, tools = await asyncio.to_thread(self._read)
        self.agent = ConfiguredAgent(
            root=self._root,
            settings=settings,
            hooks=Hooks(
                settings.hooks.get(EVENT, ()), root=self._root, env=self._env, processes=self._processes
            ),
            skills=found,
            tools=tools,
            mcp=self._mcp,
            providers=providers,
            places=self._places,
            env=self._env,
        )

    async def change(self, scope: int, write_to: Callable[[Path], write.Layer]) -> None:
        """Change the file that a scope of the wire means, and take the change up. Raises `BadRequest`."""
        file = write.scope_file(scope, self._places, self._state_file)
        layer = await asyncio.to_thread(write_to, file)
        if scope == write.GLOBAL:
            self._chosen = merge(self._chosen, layer)
        await self.reload()

    async def remove(self, scope: int, key: str) -> None:
        """Take one field out of a scope's file, and out of what was chosen here."""
        _forget(self._chosen, write.parse_key(key))
        await self.change(scope, lambda file: write.remove_value(file, key))

    def shown(self) -> dict[str, Any]:
        return redact.redacted(self.settings)

    async def needs_init(self) -> bool:
        """Whether nobody has told agents about this project yet and there is something to tell."""
        return await asyncio.to_thread(self._needs_init)

    async def mark_initialized(self) -> None:
        await asyncio.to_thread(_touch, self._init_flag)

    def init_prompt(self) -> str:
        return prompt.INIT.format(name=self.settings.options.initialize_as)

    def skill_states(self) -> tuple[SkillState, ...]:
        return tuple(skills.state(s) for s in self.agent.skills)

    def skills(self) -> list[SkillInfo]:
        return [skills.info(s) for s in self.agent.skills if not s.error]

    async def read_skill(self, skill_id: str) -> SkillContent:
        found = next((s for s in self.agent.skills if s.id == skill_id and not s.error), None)
        if found is None:
            raise BadRequest(f"there is no skill {skill_id!r} here")
        return await asyncio.to_thread(skills.content, found)

    def _read(self) -> tuple[Settings, list[Skill], dict[str, Provider], Mapping[str, Tool]]:
        """All that takes long: files, and the first time the modules of providers and tools."""
        settings = load.load(
            self._root,
            env=self._env,
            workspace_state=self._state_file,
            places=self._places,
            trusted=self._trusted,
            data_dir=self._data_dir,
            types=registry.known_types(),
            overrides=self._chosen,
        )
        found = skills.discover(
            self._root,
            user_dirs=skills.user_directories(self._env),
            extra_paths=[self._root / Path(p).expanduser() for p in settings.options.skills_paths],
            disabled=settings.options.disabled_skills,
            trusted=settings.trusted,
        )
        return settings, found, self._providers(settings), self._tools()

    def _providers(self, settings: Settings) -> dict[str, Provider]:
        """Those of the selected models. One that is configured as before stays the same."""
        selected = {s.provider for s in (settings.large, settings.small) if s is not None}
        for name in selected & settings.providers.keys():
            wanted = settings.providers[name]
            known = self._built.get(name)
            if known is None or known[0] != wanted:
                self._built[name] = (wanted, self._make_provider(wanted))
        return {name: provider for name, (_, provider) in self._built.items()}

    def _needs_init(self) -> bool:
        if self._init_flag.exists():
            return False
        options = self.settings.options
        told = context.project_context(self._root, options, home=self._places.home, env=self._env)
        return not told and any(not p.name.startswith(".") for p in self._root.iterdir())


def _forget(layer: dict[str, Any], path: tuple[str, ...]) -> None:
    """Remove a field if it is there."""
    *parents, name = path
    here: Any = layer
    for parent in parents:
        here = here.get(parent) if isinstance(here, dict) else None
    if isinstance(here, dict):
        here.pop(name, None)


def _touch(flag: Path) -> None:
    flag.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    flag.touch(mode=0o600)
