"""What is known of models and providers on this machine, for commands that need no server."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bullpen.cli.effective import settings_of
from bullpen.config.catalogue import LOCAL_IDS
from bullpen.config.keys import advice, overridden
from bullpen.config.places import Places
from bullpen.config.settings import Settings
from bullpen.schema.agent import CatalogueProvider, Model

if TYPE_CHECKING:
    from bullpen.providers.http import ModelClient

T = TypeVar("T")


@dataclass(frozen=True)
class Provider:
    """`state` says in a few words why it can be used; when it cannot, it is empty and `missing` says what to do."""

    id: str
    name: str
    models: tuple[Model, ...]
    state: str = ""
    missing: str = ""

    @property
    def is_usable(self) -> bool:
        return bool(self.state)


def settings_here() -> Settings:
    """The configuration of the current directory."""
    return settings_of(Path.cwd())[0]


def providers_here(*, look: bool = True) -> list[Provider]:
    """All that is known, usable ones first. `look` asks the usual places of this machine and the hosts that list no
    models."""
    settings = settings_here()
    answers = ask_network(partial(_look, settings)) if look else ({}, [])
    said, local = answers
    found = [_configured(settings, name) for name in sorted(settings.providers, key=settings.catalogue.rank)]
    for name, unlisted in settings.unlisted.items():
        models, error = said.get(name, ((), "its host was not asked"))
        found.append(Provider(name, unlisted.name, models, "configured" if models else "", error))
    found += [_local(entry) for entry in local if entry.id not in settings.providers]
    names = {provider.id for provider in found}
    seen = overridden(os.environ)
    found += [
        _offered(settings, entry, seen)
        for entry in settings.catalogue.offers(_types())
        if entry.id not in names
    ]
    return sorted(found, key=lambda provider: not provider.is_usable)


async def _look(
    settings: Settings, http: ModelClient
) -> tuple[dict[str, tuple[tuple[Model, ...], str]], list[CatalogueProvider]]:
    from bullpen.config import discovered
    from bullpen.providers import discover

    wanted = [p for p in (*settings.providers.values(), *settings.unlisted.values()) if p.discovers]
    answers = await discover.ask_all(wanted, http)
    local = await discover.on_this_machine(http)
    discovered.remember(Places.of(os.environ).cache, answers)
    return {name: (found.models, found.error) for name, found in answers.items()}, local


def ask_network(work: Callable[[ModelClient], Awaitable[T]]) -> T:
    """Run something that needs the HTTP client, to its end."""
    import anyio

    from bullpen.providers.http import ModelClient

    async def main() -> T:
        async with ModelClient() as http:
            return await work(http)

    return anyio.run(main)


def tell_server() -> None:
    """Let the workspaces of a running server read their configuration again; where none runs, there is nothing to do."""
    from bullpen.cli.calls import call, get
    from bullpen.client.locate import find_address
    from bullpen.errors import BullpenError

    try:
        address = find_address(None)
        for workspace in get(address, "/workspaces"):
            call(address, "POST", f"/workspaces/{workspace['id']}/agent/update")
    except BullpenError:
        return


def _types() -> frozenset[str]:
    from bullpen.providers.registry import known_types

    return known_types()


def _configured(settings: Settings, name: str) -> Provider:
    provider = settings.providers[name]
    by_itself = "on this machine" if name in LOCAL_IDS else "configured"
    return Provider(name, provider.name, provider.models, "logged in" if provider.token else by_itself)


def _local(entry: CatalogueProvider) -> Provider:
    return Provider(entry.id, entry.name, entry.models, f"answers at {entry.api_endpoint}")


def _offered(settings: Settings, entry: CatalogueProvider, env: Mapping[str, str]) -> Provider:
    missing = advice(entry, env)
    if missing:
        return Provider(entry.id, entry.name, entry.models, "", missing)
    state = (
        "key found" if entry.id in settings.keys_found else "built in" if not entry.api_endpoint else "ready"
    )
    return Provider(entry.id, entry.name, entry.models, state)
