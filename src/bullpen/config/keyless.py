"""How a provider is reached that may have no key yet: for whoever is about to give it one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import msgspec

from bullpen.config.clouds import CLOUDS
from bullpen.config.expand import expand
from bullpen.config.keys import overridden, templates_of
from bullpen.config.settings import ProviderSettings, Settings
from bullpen.config.shape import ProviderEntry
from bullpen.config.usable import DEFAULT_TYPE, OFFLINE
from bullpen.errors import BadRequest, ConfigError


def reached(settings: Settings, provider_id: str, env: Mapping[str, str]) -> ProviderSettings:
    """The provider without any key. `base_url` is empty where its address cannot be told without running a command.

    Raises `BadRequest` for one that takes no key."""
    configured = settings.providers.get(provider_id) or settings.unlisted.get(provider_id)
    if configured is not None and configured.type not in OFFLINE:
        return msgspec.structs.replace(configured, api_key="", token=None, key_source=None)
    known = settings.catalogue.known(provider_id)
    described = settings.raw.get("providers", {}).get(provider_id)
    takes_key = known is not None and bool(known.api_key or known.type in CLOUDS)
    if configured is not None or not (described or takes_key):
        names = [*settings.catalogue.ids, *settings.raw.get("providers", {})]
        near = difflib.get_close_matches(provider_id, names, 1, 0.4)
        hint = f" (did you mean {near[0]}?)" if near and near[0] != provider_id else ""
        raise BadRequest(
            f"there is no provider {provider_id} that takes a key{hint}; describe your own in bullpen.json first"
        )
    entry = msgspec.convert(described or {}, ProviderEntry)
    kind = known.type if known else entry.type or DEFAULT_TYPE
    urls = (entry.base_url,) if entry.base_url else templates_of(known, kind)[1]
    return ProviderSettings(
        id=provider_id,
        name=(known.name if known else entry.name) or provider_id,
        type=kind,
        base_url=_first(urls, overridden(env)),
        extra_headers=known.default_headers if known else {},
    )


def _first(templates: tuple[str, ...], env: Mapping[str, str]) -> str:
    for template in templates:
        try:
            if value := expand(template, env).value:
                return value
        except ConfigError:
            return ""
    return ""
