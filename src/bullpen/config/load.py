"""Makes `Settings` of the config files of a workspace: values are expanded, providers and models chosen.

Nothing here raises for what stands in a file. A file that cannot be read is left out and becomes a problem:
the workspace opens, shows it, and answers no prompt until it is mended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bullpen.config import catalogue, discovered
from bullpen.config.check import folded
from bullpen.config.expand import Remembering, Run, expand, shell
from bullpen.config.items import Trusted, hook_pins
from bullpen.config.jsonc import Source
from bullpen.config.layers import read_layers
from bullpen.config.places import Places
from bullpen.config.selection import named_models, select, selected_providers
from bullpen.config.settings import ProviderSettings, Settings, limits_of
from bullpen.config.shape import HOOK_EVENTS, Hook, LspServer, McpServer, Options, PermissionRule, WebSearch
from bullpen.config.spans import seconds
from bullpen.config.usable import usable
from bullpen.config.wanted import HookPins
from bullpen.errors import ConfigError
from bullpen.schema.asks import Rule

S = TypeVar("S", McpServer, LspServer)


def load(
    root: Path,
    *,
    env: Mapping[str, str],
    workspace_state: Path,
    places: Places,
    trusted: Trusted,
    data_dir: Path | None = None,
    types: Collection[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    wanted: Collection[str] = (),
    last_good: dict[str, Source] | None = None,
    printed: dict[str, str] | None = None,
) -> Settings:
    """The settings of the workspace at `root`. Blocking: it reads files and may run the user's commands.

    `types` are the provider types that can be spoken to, all when None. `overrides` is one more layer, above all
    files. `wanted` are providers that some session uses although no file names them. `last_good` is the memory of
    `read_layers`, and `printed` that of commands: one that is in it is not run again.
    """
    layers = read_layers(
        root,
        places=places,
        workspace_state=workspace_state,
        trusted=trusted,
        overrides=overrides,
        last_good=last_good,
    )
    raw = layers.merged()
    project_env = {name: value for name, value in layers.dotenv.items() if name not in env}
    run = Remembering(shell(root, {**env, **project_env}), {} if printed is None else printed)
    exported, env_names, env_wrong = _exported(raw.get("env", {}), {**env, **project_env}, run)
    exported = {**project_env, **exported}
    full_env = {**env, **exported}
    options = msgspec.convert(raw.get("options", {}), Options)
    chosen = raw.get("models", {})
    known = catalogue.TOUR_ONLY if options.disable_default_providers else catalogue.load(places.data)
    found = usable(
        raw.get("providers", {}),
        [*selected_providers(chosen), *sorted(wanted)],
        full_env,
        run,
        known=known,
        discovered=discovered.read(places.cache),
        named=named_models(chosen),
        types=types,
        token_file=places.state_file,
        root=root,
    )
    selection = select(chosen, found.providers, known)
    mcp, mcp_errors = _servers(raw.get("mcp", {}), McpServer, full_env, run)
    lsp, lsp_errors = _servers(raw.get("lsp", {}), LspServer, full_env, run)
    search, search_names, search_wrong = _web_search(
        raw.get("tools", {}).get("web_search", {}), full_env, run
    )
    server_warnings = [f"mcp.{k}: {v}" for k, v in mcp_errors.items()] + [
        f"lsp.{k}: {v}" for k, v in lsp_errors.items()
    ]
    return Settings(
        raw=_with_defaults(raw, found.providers, known, data_dir or places.data),
        providers=found.providers,
        large=selection.large,
        small=selection.small,
        options=options,
        allowed_tools=tuple(raw.get("permissions", {}).get("allowed_tools", ())),
        permission_rules=_rules(raw.get("permissions", {}).get("rules", ())),
        hooks=_hooks(raw.get("hooks", {})),
        mcp=mcp,
        mcp_errors=mcp_errors,
        lsp=lsp,
        lsp_errors=lsp_errors,
        tool_limits=limits_of(raw.get("tools", {})),
        web_search=search,
        env=exported,
        secret_names=_with_sources(found.secret_names | search_names, env_names),
        warnings=(
            *layers.warnings,
            *((known.warning,) if known.warning else ()),
            *env_wrong,
            *found.warnings,
            *selection.warnings,
            *server_warnings,
            *search_wrong,
        ),
        problems=tuple(layers.problems),
        held_back=tuple(layers.held_back),
        untrusted=layers.untrusted,
        fingerprint=layers.fingerprint,
        trusted=layers.is_trusted,
        wanted=tuple(layers.wanted),
        items=tuple(layers.items),
        hook_pins=HookPins() if trusted is True else hook_pins(layers.items),
        catalogue=known,
        keys_found=known.with_key(full_env, types),
        unlisted=found.unlisted,
    )


def _rules(written: Sequence[Any]) -> tuple[Rule, ...]:
    """Rules of the files, in their order. They have no id that anybody could take back, and no end."""
    read = msgspec.convert(list(written), list[PermissionRule])
    return tuple(
        Rule(
            id=f"config-{number}",
            effect=rule.effect,
            tool=rule.tool,
            command=rule.command,
            path=rule.path,
            host=rule.host,
            origin="config",
        )
        for number, rule in enumerate(read, 1)
    )


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
            servers[name] = msgspec.convert(_in_seconds(_expanded(entry, env, run)), kind)
        except ConfigError as exc:
            errors[name] = str(exc)
    return servers, errors


def _web_search(
    entry: Mapping[str, Any], env: Mapping[str, str], run: Run
) -> tuple[WebSearch, frozenset[str], list[str]]:
    """The search engine with its templates expanded, the variables that its key is made from, and what went wrong."""
    said = msgspec.convert(entry, WebSearch)
    try:
        key, base_url = expand(said.api_key, env, run), expand(said.base_url, env, run)
    except ConfigError as exc:
        return (
            WebSearch(provider=said.provider),
            frozenset(),
            [f"tools.web_search cannot be expanded: {exc}"],
        )
    return (
        WebSearch(provider=said.provider, base_url=base_url.value, api_key=key.value),
        key.names,
        [],
    )


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


def _hooks(configured: Mapping[str, Any]) -> dict[str, tuple[Hook, ...]]:
    """Hooks by the proper name of their event; what cannot work was told when the files were checked."""
    proper = {folded(event): event for event in HOOK_EVENTS}
    by_event: dict[str, tuple[Hook, ...]] = {}
    for name, entries in configured.items():
        hooks = tuple(msgspec.convert(_in_seconds(entry), Hook) for entry in entries)
        by_event[proper[folded(name)]] = by_event.get(proper[folded(name)], ()) + hooks
    return by_event


def _in_seconds(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {**entry, "timeout": seconds(entry["timeout"])} if "timeout" in entry else dict(entry)


def _with_defaults(
    raw: Mapping[str, Any],
    providers: Mapping[str, ProviderSettings],
    known: catalogue.Catalogue,
    data_dir: Path,
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
        offered = known.known(provider_id)
        entry.setdefault("base_url", offered.api_endpoint if offered else "")
    return {**raw, "options": options, "providers": shown, "models": raw.get("models", {})}
