"""Which of the configured providers can be used, and with what address and key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from bullpen.config import catalogue
from bullpen.config.expand import Run, expand
from bullpen.config.settings import ProviderSettings
from bullpen.config.shape import ProviderEntry
from bullpen.errors import ConfigError
from bullpen.schema.agent import CatalogueProvider, Model

DEFAULT_TYPE = "openai-compat"
OFFLINE = frozenset({"demo", "scripted"})
"""Types that need neither an address nor a key, and bring a model of their own."""

OVERRIDES = ("CRUSH_", "BULLPEN_")
"""`BULLPEN_OPENAI_API_KEY` stands in for `OPENAI_API_KEY` in the settings of providers."""


class Usable(msgspec.Struct, frozen=True, kw_only=True):
    providers: dict[str, ProviderSettings]
    secret_names: frozenset[str]
    warnings: tuple[str, ...]


def usable(
    configured: Mapping[str, Any],
    selected: Collection[str],
    env: Mapping[str, str],
    run: Run,
    *,
    with_catalogue: bool,
    types: Collection[str] | None,
) -> Usable:
    """The providers that a config names or whose model it selects, as far as they can be used.

    With `types` given, others are left out: this Bullpen cannot speak to them.
    """
    found: dict[str, ProviderSettings] = {}
    secrets: set[str] = set()
    warnings: list[str] = []
    overridden = _overridden(env)
    for provider_id in [*configured, *(s for s in selected if s not in configured)]:
        known = catalogue.known(provider_id) if with_catalogue or provider_id == catalogue.DEMO else None
        if provider_id not in configured and known is None:
            continue
        entry = msgspec.convert(configured.get(provider_id, {}), ProviderEntry)
        if entry.disable:
            continue
        try:
            found[provider_id] = _prepare(provider_id, entry, known, overridden, run, secrets, types)
        except ConfigError as exc:
            warnings.append(f"provider {provider_id!r} is left out: {exc}")
    secrets |= {prefix + name for name in secrets for prefix in OVERRIDES if prefix + name in env}
    return Usable(providers=found, secret_names=frozenset(secrets), warnings=tuple(warnings))


def _prepare(
    provider_id: str,
    entry: ProviderEntry,
    known: CatalogueProvider | None,
    env: Mapping[str, str],
    run: Run,
    secrets: set[str],
    types: Collection[str] | None,
) -> ProviderSettings:
    """Raises `ConfigError` with the reason why the provider cannot be used."""
    kind = known.type if known else entry.type or DEFAULT_TYPE
    if types is not None and kind not in types:
        raise ConfigError(f"its type {kind!r} is not one of {', '.join(sorted(types))}")

    def value(field: str, template: str) -> str:
        try:
            expanded = expand(template, env, run)
        except ConfigError as exc:
            raise ConfigError(f"its {field} cannot be expanded: {exc}") from exc
        if field != "base_url":
            secrets.update(expanded.names)
        return expanded.value

    key = value("api_key", entry.api_key or (known.api_key if known else ""))
    token = entry.oauth.get("access_token")
    key = token if isinstance(token, str) and token else key
    url = value("base_url", entry.base_url or (known.api_endpoint if known else ""))
    headers = {name: value(f"header {name}", text) for name, text in entry.extra_headers.items()}
    models = _models(entry.models, known, kind)
    if known and known.api_key and not key:
        raise ConfigError(f"it has no key; set {known.api_key.removeprefix('$')} or its api_key")
    if kind not in OFFLINE and not url:
        raise ConfigError("it has no base_url")
    if not models:
        raise ConfigError("it lists no models")
    return ProviderSettings(
        id=provider_id,
        name=(known.name if known else entry.name) or provider_id,
        type=kind,
        base_url=url,
        api_key=key,
        extra_headers={name: text for name, text in headers.items() if text},
        extra_body=entry.extra_body,
        provider_options=entry.provider_options,
        system_prompt_prefix=entry.system_prompt_prefix,
        flat_rate=entry.flat_rate,
        models=models,
    )


def _models(own: tuple[Model, ...], known: CatalogueProvider | None, kind: str) -> tuple[Model, ...]:
    """The user's models first, the last definition of an id counting, then the catalogue's others."""
    by_id = {model.id: model for model in own if model.id}
    listed = known.models if known else (Model(id=kind),) if kind in OFFLINE and not by_id else ()
    by_id |= {model.id: model for model in listed if model.id not in by_id}
    return tuple(m if m.name else msgspec.structs.replace(m, name=m.id) for m in by_id.values())


def _overridden(env: Mapping[str, str]) -> dict[str, str]:
    seen = dict(env)
    for prefix in OVERRIDES:
        seen |= {name.removeprefix(prefix): text for name, text in env.items() if name.startswith(prefix)}
    return seen
