"""The configuration of a workspace: read, reloaded, changed through clients, and shown without secrets.

It is read in a thread, because it lies in files and may run the user's own commands. `agent` is what turns
begin with; after a change there is a new one, and a turn under way keeps the old.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bullpen.config import agents, commands, context, load, places, redact, skills, write
from bullpen.config.agents import SubAgent
from bullpen.config.commands import Command
from bullpen.config.items import Trusted, picked
from bullpen.config.jsonc import Source, read_object
from bullpen.config.merge import merge_all
from bullpen.config.settings import ProviderSettings, Settings
from bullpen.config.skills import Skill
from bullpen.config.trust import effects
from bullpen.config.trusted import TrustBook
from bullpen.engine import prompt
from bullpen.engine.hooks import Hooks
from bullpen.errors import BadRequest, ConfigError, ContentChanged
from bullpen.mcp.servers import McpServers
from bullpen.providers import registry
from bullpen.providers.base import Provider
from bullpen.schema.agent import CommandInfo, SelectedModel, SkillInfo, SkillState
from bullpen.schema.api import CommandUse, SkillContent, Trust
from bullpen.system.processes import Processes
from bullpen.tools.base import Tool
from bullpen.workspace.agent import ConfiguredAgent
from bullpen.workspace.stamps import Stamps, Watched, stamps_of

MakeProvider = Callable[[ProviderSettings], Provider]


class _Found(NamedTuple):
    """What reading all files gave."""

    settings: Settings
    skills: list[Skill]
    sub_agents: Mapping[str, SubAgent]
    commands: list[Command]
    tools: Mapping[str, Tool]


class Configuration:
    """`agent` is there after the first `reload`. `command_env` is what commands see; it follows the configuration."""

    def __init__(
        self,
        *,
        workspace: str,
        root: Path,
        data_dir: Path,
        env: Mapping[str, str],
        command_env: Mapping[str, str],
        trusted: bool,
        trust_file: Path | None,
        tools: Callable[[], Mapping[str, Tool]],
        make_provider: MakeProvider,
        processes: Processes,
        mcp: McpServers,
    ) -> None:
        self.agent: ConfiguredAgent
        self._root = root
        self._data_dir = data_dir
        self._env = env
        self._command_env = command_env
        self._trusts_all = trusted
        self._book = TrustBook(trust_file) if trust_file else None
        self._tools = tools
        self._make_provider = make_provider
        self._processes = processes
        self._mcp = mcp
        self._places = places.Places.of(env)
        self._command_dirs = commands.user_directories(self._places.config, self._places.home)
        self._state_file = places.workspace_file(data_dir, workspace)
        self._chosen: list[write.Layer] = []
        """What clients chose for all workspaces while this one was open. Here it counts at once, even where a
        file that somebody wrote by hand would outrank it from the next opening on, and as long as the file
        that it was written to still says it."""
        self._last_good: dict[str, Source] = {}
        self._printed: dict[str, str] = {}
        self._reading = asyncio.Lock()
        self._stamps: Stamps = {}
        self.watched = Watched()
        self._wanted: set[str] = set()
        self._built: dict[str, tuple[ProviderSettings, Provider]] = {}
        self._init_flag = places.init_flag(data_dir, workspace)

    @property
    def settings(self) -> Settings:
        return self.agent.settings

    async def want(self, providers: Collection[str]) -> None:
        """See to it that these can be used too, as far as they are known and have a key: sessions name them."""
        if not self._wanted.issuperset(providers):
            self._wanted |= set(providers)
            await self.reload()

    async def reload(self, *, commands: bool = False) -> bool:
        """Read all files anew, and with `commands` run the commands in them anew, too.

        Gives back whether it all says anything else than before.
        """
        async with self._reading:
            if commands:
                self._printed.clear()
            found = await asyncio.to_thread(self._read)
            before = getattr(self, "agent", None)
            self.agent = self._agent_of(found)
            return before is None or not before.says_the_same(self.agent)

    async def has_changed(self) -> bool:
        """Whether any file is another one than when it was last read."""
        async with self._reading:
            return self._stamps != await asyncio.to_thread(stamps_of, self.watched)

    def _agent_of(self, found: _Found) -> ConfiguredAgent:
        settings = found.settings
        return ConfiguredAgent(
            root=self._root,
            settings=settings,
            hooks=Hooks(
                settings.hooks,
                root=self._root,
                env=self._command_env,
                processes=self._processes,
                pins=settings.hook_pins,
            ),
            skills=found.skills,
            sub_agents=found.sub_agents,
            commands=found.commands,
            tools=found.tools,
            mcp=self._mcp,
            provide=self._provide,
            places=self._places,
            env=self._env,
        )

    async def change(self, scope: int, write_to: Callable[[Path], write.Layer]) -> None:
        """Change the file that a scope of the wire means, and take the change up. Raises `BadRequest`."""
        file = write.scope_file(scope, self._places, self._state_file)
        layer = await asyncio.to_thread(write_to, file)
        if scope == write.GLOBAL and layer:
            self._chosen.append(layer)
        await self.reload()

    async def remove(self, scope: int, key: str) -> None:
        """Take one field out of a scope's file, and out of what was chosen here."""
        steps = write.parse_key(key)
        self._chosen = [layer for layer in self._chosen if not _names(layer, steps)]
        await self.change(scope, lambda file: write.remove_value(file, key))

    # Trust

    def trust(self) -> Trust:
        settings = self.settings
        return Trust(
            trusted=settings.trusted,
            by_server=self._trusts_all,
            fingerprint=settings.fingerprint,
            settings=settings.untrusted,
            effects=tuple(effects(settings.wanted, settings.items)),
        )

    async def give_trust(self, fingerprint: str, names: Collection[str] = ()) -> None:
        """Trust what the project asks for now, all of it or the items with these names.

        Raises `ContentChanged` when it is not what was seen, `BadRequest` when there is no such item.
        """
        await self.reload()
        if not fingerprint or fingerprint != self.settings.fingerprint:
            raise ContentChanged
        chosen = picked(self.settings.items, names)
        if self._book is not None:
            give = self._book.trust if names else self._book.trust_only
            await asyncio.to_thread(give, self._root, chosen)
        await self.reload()

    async def revoke_trust(self, names: Collection[str] = ()) -> None:
        if self._book is not None:
            await asyncio.to_thread(self._book.revoke, self._root, names)
        await self.reload()

    def _trusted(self) -> Trusted:
        if self._trusts_all or self._book is None:
            return self._trusts_all
        return self._book.items(self._root)

    def check_model(self, model: SelectedModel) -> None:
        """Raises `BadRequest` with the next step when this model cannot be used."""
        if not model.model:
            return
        provider = self.settings.providers.get(model.provider)
        if provider is None:
            known = ", ".join(sorted(self.settings.providers)) or "none"
            raise BadRequest(
                f"provider {model.provider!r} cannot be used here; configured: {known}. "
                "Set its key or describe it in bullpen.json."
            )
        if provider.model(model.model) is None:
            near = difflib.get_close_matches(model.model, [m.id for m in provider.models], 3, 0.3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise BadRequest(f"provider {model.provider!r} has no model {model.model!r}{hint}")

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
        if not found.trusted:
            raise BadRequest(
                f"the skill {skill_id} is the project's and not trusted; 'bullpen trust' shows it"
            )
        return await asyncio.to_thread(skills.content, found)

    def commands(self) -> list[CommandInfo]:
        return [commands.info(command) for command in self.agent.commands]

    def expand_command(self, use: CommandUse) -> str:
        """The prompt that a command stands for. Raises `BadRequest`."""
        found = next((c for c in self.agent.commands if c.id == use.command_id), None)
        if found is None:
            raise BadRequest(f"there is no command {use.command_id!r} here")
        return commands.expand(found, use.arguments, use.text)

    def _read(self) -> _Found:
        """All that takes long: files, and the first time the modules of providers and tools."""
        # Before anything is read: what changes while it is read has to be noticed.
        if not self.watched.files:
            self._watch([])
        self._stamps = stamps_of(self.watched)
        self._chosen = [layer for layer in self._chosen if self._is_still_said(layer)]
        settings = load.load(
            self._root,
            env=self._env,
            workspace_state=self._state_file,
            places=self._places,
            trusted=self._trusted(),
            data_dir=self._data_dir,
            types=registry.known_types(),
            overrides=merge_all(self._chosen),
            wanted=self._wanted,
            last_good=self._last_good,
            printed=self._printed,
        )
        extra = [
            context.resolved(path, self._root, self._places.home, self._env)
            for path in settings.options.skills_paths
            if "\0" not in path
        ]
        found = skills.discover(
            self._root,
            user_dirs=skills.user_directories(self._env),
            extra_paths=extra,
            system_dirs=[skills.BUILT_IN],
            disabled=settings.options.disabled_skills,
            trusted=settings.trusts,
        )
        defined, wrong = agents.discover(agents.user_directories(self._places.config, self._places.home))
        theirs, wrong_theirs = agents.discover(
            agents.project_directories(self._root), trusted=settings.trusts
        )
        defined, wrong = {**defined, **theirs}, [*wrong, *wrong_theirs]
        kept = commands.discover(self._root, self._command_dirs, trusted=settings.trusts)
        wrong += (f"{s.path} cannot be used: {s.error}" for s in found if s.error and s.trusted)
        wrong += (f"{c.path} cannot be used: {c.error}" for c in kept if c.error and c.trusted)
        if wrong:
            settings = msgspec.structs.replace(settings, warnings=(*settings.warnings, *wrong))
        named = {m.provider for m in settings.policy.models} | {
            a.model.provider for a in defined.values() if a.model
        }
        if not self._wanted.issuperset(named):
            self._wanted |= named
            return self._read()
        for name in {s.provider for s in (settings.large, settings.small) if s is not None}:
            if name in settings.providers:
                self._build(settings.providers[name])
        self._watch(extra, (Path(script.path) for item in settings.items for script in item.files))
        return _Found(settings, found, defined, kept, self._tools())

    def _watch(self, extra_skills: Iterable[Path], scripts: Iterable[Path] = ()) -> None:
        """What has to be looked at again when it changes. What was not looked at before counts as seen now."""
        own = [self._places.state_file, self._state_file, *self._mcp.files]
        own += [self._book.file] if self._book else []
        watched = Watched(
            files=tuple(dict.fromkeys([*places.watched_files(self._root, self._places), *scripts])),
            folders=(
                *skills.watched_folders(self._root, skills.user_directories(self._env), extra_skills),
                *agents.user_directories(self._places.config, self._places.home),
                *agents.project_directories(self._root),
                *commands.watched_folders([*commands.project_directories(self._root), *self._command_dirs]),
            ),
            own=tuple(own),
        )
        if watched != self.watched:
            self.watched = watched
            self._stamps = {path: self._stamps.get(path, now) for path, now in stamps_of(watched).items()}

    def _is_still_said(self, layer: write.Layer) -> bool:
        try:
            return _says(read_object(self._places.state_file), layer)
        except ConfigError:
            return True

    async def _provide(self, wanted: ProviderSettings) -> Provider:
        """The provider for these settings; one of a model that is not selected is built when it is first used."""
        known = self._built.get(wanted.id)
        if known is not None and known[0] == wanted:
            return known[1]
        return await asyncio.to_thread(self._build, wanted)

    def _build(self, wanted: ProviderSettings) -> Provider:
        """One that is configured as before stays the same."""
        known = self._built.get(wanted.id)
        if known is None or known[0] != wanted:
            known = self._built[wanted.id] = (wanted, self._make_provider(wanted))
        return known[1]

    def _needs_init(self) -> bool:
        if self._init_flag.exists():
            return False
        options = self.settings.options
        told = context.project_context(self._root, options, home=self._places.home, env=self._env)
        return not told and any(not p.name.startswith(".") for p in self._root.iterdir())


def _names(layer: write.Layer, steps: tuple[str, ...]) -> bool:
    """Whether a layer says something at or below a place."""
    here: Any = layer
    for step in steps:
        if not isinstance(here, dict) or step not in here:
            return False
        here = here[step]
    return True


def _says(content: Any, layer: Any) -> bool:
    """Whether everything in the layer stands in the content too."""
    if isinstance(layer, dict) and isinstance(content, dict):
        return all(key in content and _says(content[key], value) for key, value in layer.items())
    return bool(content == layer)


def _touch(flag: Path) -> None:
    flag.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    flag.touch(mode=0o600)
