"""Reads all config files of a workspace and makes `Settings` of them.

Lowest first: the administrator's file, what was chosen through clients, the user's file, the project's files
from the outermost directory inwards, what was chosen for this workspace, and what was chosen in this process.
What a person wrote by hand outranks what was once picked in a menu.

Nothing here raises for what stands in a file. A file that cannot be read is left out and becomes a problem:
the workspace opens, shows it, and answers no prompt until it is mended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bullpen.config import catalogue, trust
from bullpen.config.expand import Run, expand, shell
from bullpen.config.jsonc import read_object
from bullpen.config.merge import REPLACE, merge_all
from bullpen.config.places import Places, project_files
from bullpen.config.selection import ROLES, select, selected_providers
from bullpen.config.settings import ProviderSettings, Settings, limits_of
from bullpen.config.shape import Hook, LspServer, McpServer, Options, check
from bullpen.config.usable import usable
from bullpen.errors import ConfigError

HOOK_EVENTS = ("PreToolUse",)

S = TypeVar("S", McpServer, LspServer)

IN_MEMORY = "this process"
"""The origin of what was chosen in this process and is in no file."""


def load(
    root: Path,
    *,
    env: Mapping[str, str],
    workspace_state: Path,
    places: Places,
    trusted: bool | Callable[[str], bool],
    data_dir: Path | None = None,
    types: Collection[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings of the workspace at `root`. Blocking: it reads files and may run the user's commands.

    `trusted` says whether the project's files count; a function is asked with the fingerprint of what it would
    trust. `types` are the provider types that can be spoken to, all when None. `overrides` is one more layer,
    above all files.
    """
    reading = _Reading(root)
    reading.read(places.system_file)
    reading.read(places.state_file)
    reading.read(places.user_file)
    is_trusted, fingerprint, untrusted = reading.read_project(project_files(root), trusted)
    reading.read(workspace_state)
    if overrides:
        reading.add(IN_MEMORY, dict(overrides))
    reading.warn_of_shadowed_choices(str(places.state_file))

    raw = merge_all(content for _, content in reading.layers)
    run = shell(root, env)
    exported, env_names, env_wrong = _exported(raw.get("env", {}), env, run)
    full_env = {**env, **exported}
    options = msgspec.convert(raw.get("options", {}), Options)
    chosen = raw.get("models", {})
    found = usable(
        raw.get("providers", {}),
        selected_providers(chosen),
        full_env,
        run,
        with_catalogue=not options.disable_default_providers,
        types=types,
    )
    selection = select(chosen, found.providers)
    mcp, mcp_errors = _servers(raw.get("mcp", {}), McpServer, full_env, run)
    lsp, lsp_errors = _servers(raw.get("lsp", {}), LspServer, full_env, run)
    hooks, hook_problems = _hooks(raw.get("hooks", {}))
    limits, limit_problems = limits_of(raw.get("tools", {}))
    server_warnings = [f"mcp.{k}: {v}" for k, v in mcp_errors.items()] + [
        f"lsp.{k}: {v}" for k, v in lsp_errors.items()
    ]
    return Settings(
        raw=_with_defaults(raw, found.providers, data_dir or places.data),
        providers=found.providers,
        large=selection.large,
        small=selection.small,
        options=options,
        allowed_tools=tuple(raw.get("permissions", {}).get("allowed_tools", ())),
        hooks=hooks,
        mcp=mcp,
        mcp_errors=mcp_errors,
        lsp=lsp,
        tool_limits=limits,
        env=exported,
        secret_names=_with_sources(found.secret_names, env_names),
        warnings=(*reading.warnings, *env_wrong, *found.warnings, *selection.warnings, *server_warnings),
        problems=(*reading.problems, *hook_problems, *limit_problems),
        untrusted=untrusted,
        fingerprint=fingerprint,
        trusted=is_trusted,
        offers=() if options.disable_default_providers else catalogue.CATALOGUE,
        keys_found=() if options.disable_default_providers else catalogue.with_key(full_env),
        origins=reading.origins(),
    )


class _Reading:
    """The layers so far, lowest first, and what was wrong with them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layers: list[tuple[str, dict[str, Any]]] = []
        self.warnings: list[str] = []
        self.problems: list[str] = []

    def read(self, file: Path) -> None:
        try:
            content = read_object(file)
        except ConfigError as exc:
            self.problems.append(str(exc))
            return
        if content:
            self.add(str(file), content)

    def add(self, name: str, content: dict[str, Any]) -> None:
        self.layers.append((name, _whole_selections(self.checked(name, content, self.problems))))

    def checked(self, name: str, content: dict[str, Any], complaints: list[str]) -> dict[str, Any]:
        result = check(content)
        self.warnings += (f"{name}: {sentence}" for sentence in result.unknown)
        complaints += (f"{name}: {sentence}" for sentence in result.wrong)
        return result.content

    def read_project(
        self, files: list[Path], trusted: bool | Callable[[str], bool]
    ) -> tuple[bool, str, tuple[str, ...]]:
        """Adds the project's files, or what is harmless of them; gives back trust, fingerprint and inert names."""
        contents: dict[str, dict[str, Any]] = {}
        inert: dict[str, dict[str, Any]] = {}
        broken: list[str] = []
        wrong: list[str] = []
        for file in files:
            try:
                content = read_object(file) or {}
            except ConfigError as exc:
                broken.append(str(exc))
                inert[str(file)] = {"": str(exc)}
                continue
            inert[str(file)] = trust.split(content)[1]
            contents[str(file)] = self.checked(str(file), content, wrong)
        fingerprint = trust.fingerprint(inert)
        is_trusted = trusted(fingerprint) if callable(trusted) else trusted
        if is_trusted:
            self.problems += broken + wrong
            self.layers += ((name, _whole_selections(content)) for name, content in contents.items())
            return True, fingerprint, ()
        self.warnings += broken + wrong
        self.layers += ((name, trust.split(content)[0]) for name, content in contents.items())
        names = (n for name in contents for n in trust.names(inert[name]))
        return False, fingerprint, tuple(dict.fromkeys(names))

    def warn_of_shadowed_choices(self, state_file: str) -> None:
        """A model that was picked in a client and is overruled by a file would else seem to be ignored."""
        for role in ROLES:
            named = [
                (n, c["models"][role + REPLACE])
                for n, c in self.layers
                if role + REPLACE in c.get("models", {})
            ]
            picked = next((choice for name, choice in named if name == state_file), None)
            if picked and _identity(named[-1][1]) != _identity(picked):
                self.warnings.append(
                    f"models.{role}: {picked.get('provider')}/{picked.get('model')} was chosen in a client, "
                    f"but {named[-1][0]} says {named[-1][1].get('provider')}/{named[-1][1].get('model')}"
                )

    def origins(self) -> dict[str, str]:
        """For each setting, in dotted form, the last file that says something about it."""
        return {key: name for name, content in self.layers for key in _leaves(content, "")}


def _whole_selections(content: dict[str, Any]) -> dict[str, Any]:
    """A selected model replaces the one below it: effort and sampling belong to the model they were chosen for."""
    models = content.get("models")
    if not isinstance(models, dict):
        return content
    whole = {
        key + REPLACE
        if isinstance(choice, dict) and _identity(choice) != ("", "") and key in ROLES
        else key: choice
        for key, choice in models.items()
    }
    return {**content, "models": whole}


def _identity(choice: Mapping[str, Any]) -> tuple[str, str]:
    return choice.get("provider") or "", choice.get("model") or ""


def _leaves(value: Mapping[str, Any], path: str) -> Iterator[str]:
    for key, inner in value.items():
        name = path + str(key).removesuffix(REPLACE)
        if isinstance(inner, Mapping) and inner:
            yield from _leaves(inner, name + ".")
        else:
            yield name


def _exported(
    variables: Mapping[str, str], env: Mapping[str, str], run: Run
) -> tuple[dict[str, str], dict[str, frozenset[str]], list[str]]:
    """The top-level `env`, expanded in key order; what fails is left out."""
    values: dict[str, str] = {}
    names: dict[str, frozenset[str]] = {}
    wrong: list[str] = []
    for name in sorted(variables):
        try:
            expanded = expand(variables[name], {**env, **values}, run)
        except ConfigError as exc:
            wrong.append(f"env.{name} is left out: {exc}")
            continue
        values[name], names[name] = expanded.value, expanded.names
    return values, names, wrong


def _with_sources(secret_names: frozenset[str], env_names: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The names, and those that the top-level `env` made them from."""
    found = set(secret_names)
    for name in sorted(env_names, reverse=True):
        if name in found:
            found |= env_names[name]
    return frozenset(found)


def _servers(
    configured: Mapping[str, Any], kind: type[S], env: Mapping[str, str], run: Run
) -> tuple[dict[str, S], dict[str, str]]:
    """The servers with their templates expanded, and for the others what went wrong."""
    servers: dict[str, S] = {}
    errors: dict[str, str] = {}
    for name, entry in configured.items():
        if set(entry) == {"oauth_token"}:
            continue
        try:
            servers[name] = msgspec.convert(_expanded(entry, env, run), kind)
        except ConfigError as exc:
            errors[name] = str(exc)
    return servers, errors


EXPANDED_FIELDS = frozenset(
    {"command", "args", "env", "url", "headers", "oauth_client_id", "oauth_client_secret"}
)


def _expanded(entry: Mapping[str, Any], env: Mapping[str, str], run: Run) -> dict[str, Any]:
    def value(field: str, template: str) -> str:
        try:
            return expand(template, env, run).value
        except ConfigError as exc:
            raise ConfigError(f"{field} cannot be expanded: {exc}") from exc

    result: dict[str, Any] = dict(entry)
    for field in EXPANDED_FIELDS & entry.keys():
        match entry[field]:
            case str() as text:
                result[field] = value(field, text)
            case list() as items:
                result[field] = [value(field, item) for item in items]
            case dict() as mapping:
                filled = {k: value(f"{field}.{k}", v) for k, v in mapping.items()}
                result[field] = {k: v for k, v in filled.items() if v or field != "headers"}
    return result


def _hooks(configured: Mapping[str, Any]) -> tuple[dict[str, tuple[Hook, ...]], list[str]]:
    """Hooks by the proper name of their event. One that cannot work is a problem: it may be there to forbid."""
    by_event: dict[str, tuple[Hook, ...]] = {}
    problems: list[str] = []
    known = {_folded(event): event for event in HOOK_EVENTS}
    for name, entries in configured.items():
        event = known.get(_folded(name))
        if event is None:
            problems.append(f"hooks.{name}: there is no such event; known: {', '.join(HOOK_EVENTS)}")
            continue
        hooks = msgspec.convert(entries, tuple[Hook, ...])
        for hook in hooks:
            try:
                re.compile(hook.matcher)
            except re.error as exc:
                problems.append(f"hooks.{name}: the matcher {hook.matcher!r} is no regular expression: {exc}")
        by_event[event] = by_event.get(event, ()) + hooks
    return by_event, problems


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _with_defaults(
    raw: Mapping[str, Any], providers: Mapping[str, ProviderSettings], data_dir: Path
) -> dict[str, Any]:
    """What answers are made of: the sections that clients insist on are there, and providers are complete."""
    options = {**raw.get("options", {}), "data_directory": str(data_dir)}
    options.setdefault("tui", {})
    shown = {
        provider.id: {
            **raw.get("providers", {}).get(provider.id, {}),
            "id": provider.id,
            "name": provider.name,
            "type": provider.type,
            "models": [msgspec.to_builtins(m) for m in provider.models],
        }
        for provider in providers.values()
    }
    for provider_id, entry in shown.items():
        known = catalogue.known(provider_id)
        entry.setdefault("base_url", known.api_endpoint if known else "")
    return {**raw, "options": options, "providers": shown, "models": raw.get("models", {})}
