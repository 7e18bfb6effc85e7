"""Which provider speaks which type. A provider's code is loaded when a model of it is first used."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ConfigError
from bullpen.providers.base import Provider

if TYPE_CHECKING:
    from bullpen.providers.http import ModelClient

GROUP = "bullpen.providers"
"""Others ship providers as entry points of this group: name = type, value = what takes settings and client."""

_CHAT = "bullpen.providers.openai_compat:OpenAICompat"

BUILT_IN = {
    "demo": "bullpen.providers.demo:Demo",
    "scripted": "bullpen.providers.scripted:Scripted",
    "anthropic": "bullpen.providers.anthropic:Anthropic",
    "openai": "bullpen.providers.openai_responses:OpenAI",
    "azure": "bullpen.providers.azure:Azure",
    "bedrock": "bullpen.providers.bedrock:Bedrock",
    "google": "bullpen.providers.gemini:Gemini",
    "google-vertex": "bullpen.providers.vertex:Vertex",
    "openai-compat": _CHAT,
    "copilot": "bullpen.providers.copilot:Copilot",
    "openrouter": _CHAT,
    "vercel": _CHAT,
    "hyper": _CHAT,
    "litellm": _CHAT,
    "llamacpp": _CHAT,
    "lmstudio": _CHAT,
    "ollama": _CHAT,
    "omlx": _CHAT,
}

OFFLINE = frozenset({"demo", "scripted"})
"""These ask nobody, so they are built without an HTTP client, which takes longer to load than all they need."""


@functools.cache
def known_types() -> frozenset[str]:
    """Every type that can be built, from here and from installed packages. Looking through these takes longer than
    all the rest of reading a configuration, and what is installed does not change while we run."""
    from importlib.metadata import entry_points

    return frozenset(BUILT_IN) | {point.name for point in entry_points(group=GROUP)}


def build(settings: ProviderSettings, http: ModelClient | None) -> Provider:
    """The provider for the settings; only one that is `OFFLINE` can do without a client. May import a library, so call
    it in a thread when that matters.

    Raises `ConfigError` for a type that nobody knows and for settings that the provider refuses.
    """
    where = BUILT_IN.get(settings.type)
    if where is not None:
        module, _, name = where.partition(":")
        make: Any = getattr(import_module(module), name)
    else:
        make = _shipped(settings.type)
    if http is not None and (settings.token or settings.key_source):
        from bullpen.providers.renewing import Renewing

        return Renewing(settings, http, make)
    provider: Provider = make(settings, http)
    return provider


def _shipped(kind: str) -> Any:
    """What an installed package offers for the type. Raises `ConfigError`."""
    from importlib.metadata import entry_points

    found = next(iter(entry_points(group=GROUP, name=kind)), None)
    if found is None:
        raise ConfigError(f"unknown provider type {kind!r}; known: {', '.join(sorted(known_types()))}")
    try:
        return found.load()
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"provider type {kind!r} of {found.value} cannot be loaded: {exc}") from exc
