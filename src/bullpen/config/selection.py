"""Which models play the large and the small role.

A provider that nobody configured or selected is never chosen: sending somebody's code to a host is their
decision. A choice that cannot be honoured is answered with the nearest thing of the same provider and a
warning, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bullpen.config.catalogue import Catalogue, nearest
from bullpen.config.settings import ProviderSettings
from bullpen.config.shape import ROLES
from bullpen.schema.agent import SelectedModel


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    large: SelectedModel | None
    small: SelectedModel | None
    warnings: tuple[str, ...]


def selected_providers(models: Mapping[str, Any]) -> list[str]:
    """The ids that the selections name, large first."""
    named = (models[role].get("provider", "") for role in ROLES if isinstance(models.get(role), Mapping))
    return list(dict.fromkeys(n for n in named if n))


def named_models(models: Mapping[str, Any]) -> dict[str, list[str]]:
    """The models that the selections name, by provider."""
    named: dict[str, list[str]] = {}
    for choice in (models.get(role) for role in ROLES):
        if isinstance(choice, Mapping) and choice.get("provider") and choice.get("model"):
            named.setdefault(choice["provider"], []).append(choice["model"])
    return named


def select(
    models: Mapping[str, Any], providers: Mapping[str, ProviderSettings], known: Catalogue
) -> Selection:
    warnings: list[str] = []
    large = _chosen("large", models, providers, known, warnings)
    if large is None and not _names_something(models, "large"):
        large = _default_large(providers, known)
    small = _chosen("small", models, providers, known, warnings)
    if small is None and large is not None:
        small = _default_of(providers[large.provider], "small", known) or large
    return Selection(large=large, small=small, warnings=tuple(warnings))


def _names_something(models: Mapping[str, Any], role: str) -> bool:
    choice = models.get(role)
    return isinstance(choice, Mapping) and bool(choice.get("provider") or choice.get("model"))


def _chosen(
    role: str,
    models: Mapping[str, Any],
    providers: Mapping[str, ProviderSettings],
    known: Catalogue,
    warnings: list[str],
) -> SelectedModel | None:
    """The configured choice as far as it can be honoured, or None."""
    if not _names_something(models, role):
        return None
    choice = msgspec.convert(models[role], SelectedModel)
    provider = providers.get(choice.provider) if choice.provider else _holder(choice.model, providers)
    if provider is None:
        what = f"provider {choice.provider!r}" if choice.provider else f"model {choice.model!r}"
        warnings.append(f"models.{role}: {what} is not available")
        return None
    if provider.model(choice.model):
        return msgspec.structs.replace(choice, provider=provider.id)
    instead = _default_of(provider, role, known) or SelectedModel(
        provider=provider.id, model=provider.models[0].id
    )
    if choice.model:
        near = nearest(choice.model, provider.models)
        hint = f" (did you mean {near!r}?)" if near and near != instead.model else ""
        warnings.append(
            f"models.{role}: {provider.id!r} has no model {choice.model!r}{hint}; {instead.model!r} is used instead"
        )
    return instead


def _holder(model_id: str, providers: Mapping[str, ProviderSettings]) -> ProviderSettings | None:
    """The one provider that has the model; none when several have it."""
    holders = [p for p in providers.values() if p.model(model_id)]
    return holders[0] if len(holders) == 1 else None


def _default_large(providers: Mapping[str, ProviderSettings], known: Catalogue) -> SelectedModel | None:
    if not providers:
        return None
    first = min(providers.values(), key=lambda p: (known.rank(p.id), p.id))
    return _default_of(first, "large", known) or SelectedModel(provider=first.id, model=first.models[0].id)


def _default_of(provider: ProviderSettings, role: str, known: Catalogue) -> SelectedModel | None:
    """The catalogue's default for the role, if the provider has it."""
    entry = known.known(provider.id)
    if entry is None:
        return None
    wanted = entry.default_large_model_id if role == "large" else entry.default_small_model_id
    return SelectedModel(provider=provider.id, model=wanted) if provider.model(wanted) else None
