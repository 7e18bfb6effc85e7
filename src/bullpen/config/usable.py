"""Which of the configured providers can be used, and with what address and key."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from bullpen.config import keys
from bullpen.config.catalogue import Catalogue
from bullpen.config.clouds import AWS_TOKEN, cloud_of, lacking, secrets_in, seen_by
from bullpen.config.discovered import Found
from bullpen.config.expand import Remembering, expand
from bullpen.config.keys import KeySource
from bullpen.config.settings import ProviderSettings
from bullpen.config.shape import ProviderEntry
from bullpen.errors import ConfigError
from bullpen.schema.agent import CatalogueProvider, Model

DEFAULT_TYPE = "openai-compat"
OFFLINE = frozenset({"demo", "scripted"})
"""Types that need neither an address nor a key, and bring a model of their own."""

OWN_ADDRESS = frozenset({"anthropic", "copilot"})
"""Types whose adapter knows the vendor's address."""

NO_CACHING = "DISABLE_ANTHROPIC_CACHE"
"""Set to anything but 0 or false, with one of the prefixes of `keys.OVERRIDES`, no request is marked for caching."""


class Usable(msgspec.Struct, frozen=True, kw_only=True):
    """`unlisted` are complete but for their models, which nobody has asked them for yet."""

    providers: dict[str, ProviderSettings]
    unlisted: dict[str, ProviderSettings]
    secret_names: frozenset[str]
    warnings: tuple[str, ...]


def usable(
    configured: Mapping[str, Any],
    selected: Collection[str],
    env: Mapping[str, str],
    run: Remembering,
    *,
    known: Catalogue,
    discovered: Mapping[tuple[str, str], Found],
    named: Mapping[str, Collection[str]],
    types: Collection[str] | None,
    token_file: Path,
    root: Path,
) -> Usable:
    """The providers that a config names or whose model it selects, as far as they can be used.

    With `types` given, others are left out: this Bullpen cannot speak to them. `discovered` is what hosts said about their
    models, `named` which models the config chooses: one that says nothing else is believed to have these. Renewed logins go to
    `token_file`; commands are run in `root`.
    """
    found: dict[str, ProviderSettings] = {}
    unlisted: dict[str, ProviderSettings] = {}
    warnings: list[str] = []
    overridden = keys.overridden(env)
    # The token is good for Bedrock and for nothing else, so no tool ever needs it.
    secrets = {AWS_TOKEN} & overridden.keys()
    for provider_id in [*configured, *(s for s in selected if s not in configured)]:
        entry_known = known.known(provider_id)
        if provider_id not in configured and entry_known is None:
            continue
        entry = msgspec.convert(configured.get(provider_id, {}), ProviderEntry)
        if entry.disable:
            continue
        try:
            prepared = _prepare(
                provider_id, entry, entry_known, overridden, run, secrets, types, token_file, root
            )
        except ConfigError as exc:
            warnings.append(f"provider {provider_id!r} is left out: {exc}")
            continue
        stated = {m.get("id", ""): m.keys() for m in configured.get(provider_id, {}).get("models") or ()}
        said = discovered.get((provider_id, prepared.base_url)) if prepared.discovers else None
        models = _listed(prepared, entry, entry_known, stated, said, named.get(provider_id, ()))
        if models:
            found[provider_id] = msgspec.structs.replace(prepared, models=models)
            continue
        warnings.append(f"provider {provider_id!r} is left out: {_unlisted(entry, said)}")
        if prepared.discovers:
            unlisted[provider_id] = prepared
    secrets |= {prefix + name for name in secrets for prefix in keys.OVERRIDES if prefix + name in env}
    return Usable(
        providers=found, unlisted=unlisted, secret_names=frozenset(secrets), warnings=tuple(warnings)
    )


def _prepare(
    provider_id: str,
    entry: ProviderEntry,
    known: CatalogueProvider | None,
    env: Mapping[str, str],
    run: Remembering,
    secrets: set[str],
    types: Collection[str] | None,
    token_file: Path,
    root: Path,
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

    def first(field: str, templates: Sequence[str]) -> tuple[str, str]:
        """The template that has a value, and the value; without one what was to be looked at first."""
        found = ((template, value(field, template)) for template in templates)
        return next((pair for pair in found if pair[1]), ((*templates, "")[0], ""))

    cloud = cloud_of(kind)
    usual_keys, usual_urls = keys.templates_of(known, kind)
    token = keys.token_of(entry.oauth)
    if token:
        template, key = "", token.access_token
    else:
        template, key = first("api_key", [entry.api_key] if entry.api_key else usual_keys)
    told = token.endpoint if token and token.endpoint.startswith(("https://", "http://")) else ""
    # What a login's host said is an address and no template.
    is_told = bool(told) and not entry.base_url
    url = told if is_told else first("base_url", [entry.base_url] if entry.base_url else usual_urls)[1]
    _check_address(url)
    extra = {**(known.default_headers if known else {}), **entry.extra_headers}
    headers = {name: value(f"header {name}", text) for name, text in extra.items()}
    if kind in OWN_ADDRESS and not (key or url or token):
        raise ConfigError("it has no api_key")
    if lack := lacking(kind, entry, key, url, env, known.api_key if known else ""):
        raise ConfigError(str(lack))
    if kind not in OFFLINE | OWN_ADDRESS and cloud.needs_address and not url:
        raise ConfigError("it has no base_url")
    secrets.update(secrets_in(kind, key, env))
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
        prompt_caching=env.get(NO_CACHING, "").lower() in ("", "0", "false"),
        aws_auth_refresh=entry.aws_auth_refresh,
        environment=seen_by(kind, env),
        directory=str(root) if cloud.runs_commands else "",
        command_environment=dict(env) if cloud.runs_commands else {},
        discovers=_discovers(entry, known, kind),
        token=token,
        token_file=str(token_file) if token else "",
        key_source=KeySource(template, lambda: expand(template, env, run.anew).value)
        if "$(" in template
        else None,
    )


def _check_address(url: str) -> None:
    """Raises `ConfigError`, without the address: there may be a password in it."""
    try:
        _ = urlsplit(url if "//" in url else f"//{url}").port
    except ValueError:
        raise ConfigError(
            "its base_url is no address; look at its host and its port, a number up to 65535"
        ) from None


def _discovers(entry: ProviderEntry, known: CatalogueProvider | None, kind: str) -> bool:
    """Whether the host is to be asked for its models: when it is wanted, or when nobody listed any."""
    if kind in OFFLINE or entry.discover_models is not None:
        return bool(entry.discover_models) and kind not in OFFLINE
    return not entry.models and not (known and known.models)


def _listed(
    provider: ProviderSettings,
    entry: ProviderEntry,
    known: CatalogueProvider | None,
    stated: Mapping[str, Collection[str]],
    found: Found | None,
    named: Collection[str],
) -> tuple[Model, ...]:
    """The user's models first, the last definition of an id counting, then the catalogue's others, then the host's.

    What the user says about a model stands; what they left open is filled in from what the host says."""
    by_id = {model.id: model for model in entry.models if model.id}
    listed = known.models if known else ()
    if provider.type in OFFLINE and not by_id and not listed:
        listed = (Model(id=provider.type),)
    if found:
        by_id |= {m.id: _completed(by_id[m.id], stated[m.id], m) for m in found.models if m.id in by_id}
        listed = (*listed, *found.models)
    if not by_id and not listed:
        listed = tuple(Model(id=name) for name in named if name)
    by_id |= {model.id: model for model in listed if model.id not in by_id}
    return tuple(m if m.name else msgspec.structs.replace(m, name=m.id) for m in by_id.values())


def _completed(own: Model, stated: Collection[str], said: Model) -> Model:
    """The user's description of a model; what it does not mention is as the host says."""
    open_fields = [name for name in Model.__struct_fields__ if name not in stated]
    return msgspec.structs.replace(own, **{name: getattr(said, name) for name in open_fields})


def _unlisted(entry: ProviderEntry, found: Found | None) -> str:
    """Why a provider has no models, and what helps."""
    if entry.discover_models is False:
        return "it lists no models, and discover_models is off"
    if found and found.error:
        return f"it lists no models, and {found.error}"
    return "it lists no models; its host is being asked for them"
