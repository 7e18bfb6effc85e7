"""What goes into a request whatever the vendor: options of the config, and a name for the conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET

from bullpen.config.settings import ProviderSettings
from bullpen.providers.base import ModelRequest
from bullpen.providers.direct import Headers

Json = dict[str, Any]

CACHING = "prompt_caching"
"""The option that turns off the marks for what is to be cached; it is never sent."""

MARKED_MESSAGES = 2
"""The last of all, which becomes the prefix of the next step, and the one before, which was the last before."""


def options_of(request: ModelRequest, settings: ProviderSettings, *, ours: frozenset[str]) -> Json:
    """The options for a call, later ones winning: `extra_body`, those of the model's own entry, the provider's, and
    those of the selected model. What is `ours` cannot be set by any of them."""
    model = settings.model(request.model)
    listed = model.options.get("provider_options") if model and model.options is not UNSET else None
    chosen = request.settings.provider_options
    merged: Json = {}
    for options in (settings.extra_body, listed, settings.provider_options, chosen):
        if isinstance(options, dict):
            merged = deep(merged, options)
    return {key: value for key, value in merged.items() if key not in ours}


def with_options(body: Json, automatic: Json, options: Json) -> Json:
    """The body with fields that are set by themselves, unless an option says something about them."""
    return deep(body | {key: value for key, value in automatic.items() if key not in options}, options)


def sampling_of(request: ModelRequest, settings: ProviderSettings, names: Iterable[str]) -> Json:
    """The sampling parameters that were selected, or that the model's entry recommends."""
    model = settings.model(request.model)
    listed = model.options if model and isinstance(model.options, dict) else {}
    values = ((name, getattr(request.settings, name)) for name in names)
    chosen = {name: listed.get(name) if value is UNSET else value for name, value in values}
    return {name: value for name, value in chosen.items() if value is not None}


def deep(base: Mapping[str, Any], over: Mapping[str, Any]) -> Json:
    """Both merged; where both have an object these are merged too, else `over` wins."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(merged.get(key), dict) and isinstance(value, dict)
        merged[key] = deep(merged[key], value) if both else value
    return merged


def affinity_of(session_id: str) -> str:
    """A name for the session that tells the host nothing but which requests belong together."""
    return hashlib.sha256(session_id.encode()).hexdigest()[:16]


def affinity_headers(session_id: str) -> Headers:
    name = affinity_of(session_id).encode()
    return [(b"x-session-id", name), (b"x-session-affinity", name)]


def is_cached(request: ModelRequest) -> bool:
    """Whether the next request begins like this one. Titles and summaries are asked for once, and what is written to a
    cache costs more than what is not."""
    return request.purpose == "turn"


def host_of(settings: ProviderSettings) -> str:
    """The name of the host, as far as an address is there."""
    authority = settings.base_url.partition("://")[2].partition("/")[0]
    return authority.rpartition("@")[2].partition(":")[0].lower()
