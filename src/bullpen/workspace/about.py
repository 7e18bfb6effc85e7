"""What the agent may know of Bullpen itself: how it is configured here, and what the log says, both without secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bullpen import __version__
from bullpen.asks import reasons
from bullpen.config import redact
from bullpen.config.settings import Settings
from bullpen.mcp.servers import McpServers
from bullpen.schema.agent import SelectedModel
from bullpen.system.journal import Journal
from bullpen.tools.base import Section
from bullpen.workspace.configuration import Configuration


class About:
    """One workspace's view of it."""

    def __init__(
        self, configuration: Configuration, mcp: McpServers, journal: Journal, *, skips: Callable[[], bool]
    ) -> None:
        self._configuration = configuration
        self._mcp = mcp
        self._journal = journal
        self._skips = skips

    async def configuration(self) -> Sequence[Section]:
        is_stale = await self._configuration.has_changed()
        settings = self._configuration.settings
        secrets = redact.secrets_of(settings)
        found = [
            Section("bullpen", (f"version = {__version__}", f"trusted project = {_word(settings.trusted)}")),
            Section("config files", tuple(self._files(is_stale))),
            Section("models", tuple(_models(settings))),
            Section("providers", tuple(_providers(settings))),
            Section("mcp", tuple(self._servers())),
            Section("lsp", tuple(_language_servers(settings))),
            Section("skills", tuple(self._skills())),
            Section("hooks", tuple(_hooks(settings))),
            Section("permissions", tuple(self._permissions(settings))),
            Section("tools", tuple(_lines(redact.shown_part(settings.raw.get("tools", {}))))),
            Section("options", tuple(_lines(redact.shown_part(settings.raw.get("options", {}))))),
            Section("problems", (*settings.problems, *settings.held_back, *settings.warnings)),
        ]
        return [
            Section(name, tuple(redact.text_without(line, secrets) for line in lines))
            for name, lines in found
            if lines
        ]

    def log(self, most: int) -> Sequence[str]:
        secrets = redact.secrets_of(self._configuration.settings)
        return [redact.text_without(str(entry), secrets) for entry in self._journal.last(most)]

    def _files(self, is_stale: bool) -> Iterator[str]:
        yield from (str(path) for path in self._configuration.watched.files if path.is_file())
        yield f"changed since they were read = {_word(is_stale)}"

    def _servers(self) -> Iterator[str]:
        for name, state in sorted(self._mcp.states().items()):
            error = f" ({state.error})" if state.error else ""
            yield f"{name} = {state.state}, {state.tool_count} tools{error}"

    def _skills(self) -> Iterator[str]:
        for skill in self._configuration.agent.skills:
            state = skill.error or ("usable" if skill.trusted else "not trusted")
            yield f"{skill.name} = {state}"

    def _permissions(self, settings: Settings) -> Iterator[str]:
        if self._skips():
            yield "skipped = yes"
        if settings.allowed_tools:
            yield f"allowed_tools = {', '.join(settings.allowed_tools)}"
        for rule in settings.permission_rules:
            yield f"{rule.effect} = {reasons.covers(rule)}"


def _models(settings: Settings) -> Iterator[str]:
    for role, selected in (("large", settings.large), ("small", settings.small)):
        yield f"{role} = {_model(selected)}"


def _model(selected: SelectedModel | None) -> str:
    return f"{selected.provider}/{selected.model}" if selected is not None else "none is selected"


def _providers(settings: Settings) -> Iterator[str]:
    for provider in settings.providers.values():
        yield f"{provider.id} = {provider.type}, {len(provider.models)} models"


def _language_servers(settings: Settings) -> Iterator[str]:
    for name, server in settings.lsp.items():
        yield f"{name} = {'disabled' if server.disabled else server.command}"


def _hooks(settings: Settings) -> Iterator[str]:
    """Without their commands, in which anything may stand."""
    for event, hooks in settings.hooks.items():
        for hook in hooks:
            yield f"{event} = {hook.name or 'a command'} on {hook.matcher or 'every tool'}"


def _lines(value: Any, name: str = "") -> Iterator[str]:
    """A part of the config, one line for each value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lines(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        yield f"{name} = {', '.join(map(str, value)) or 'none'}"
    else:
        yield f"{name} = {_word(value) if isinstance(value, bool) else value}"


def _word(value: bool) -> str:
    return "yes" if value else "no"
