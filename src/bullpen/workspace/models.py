"""The models of a workspace as clients see them: what is offered, what was used lately, what somebody likes.

Hosts that list their own models are asked in the background whenever the configuration names one; servers of this machine
are looked for only when a client asks what is offered. Neither ever holds up an opening or a prompt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

import msgspec
from anyio.abc import TaskGroup
from msgspec import UNSET, UnsetType

from bullpen.config import discovered, keyless, keys, tokens, write
from bullpen.config.catalogue import LOCAL_IDS
from bullpen.config.discovered import Found
from bullpen.config.keys import Token
from bullpen.config.places import Places
from bullpen.config.settings import ProviderSettings, Settings
from bullpen.errors import BadRequest, BullpenError, ProviderError
from bullpen.providers import registry
from bullpen.schema.agent import CatalogueProvider, SelectedModel
from bullpen.schema.api import (
    FavoriteModel,
    ImportedToken,
    KeyChecked,
    KeyToCheck,
    RefreshOauth,
    RememberedModels,
)
from bullpen.system.clock import Clock
from bullpen.workspace.device_login import DeviceLogin, Show

log = logging.getLogger(__name__)

ASK_AGAIN_S = 60.0
"""A host that did not answer is not asked at every change of the configuration."""

MAX_KEY_CHARS = 16 * 1024
"""Longer than the longest token that anybody hands out."""

LOOK_AGAIN_S = 10.0
"""A list of the servers of this machine is good for a menu that is opened twice."""


class Hosts:
    """Asks hosts for their models. This one knows nobody; a server has one that uses the network."""

    async def ask(self, providers: Sequence[ProviderSettings]) -> dict[str, Found]:
        return {}

    async def on_this_machine(self) -> list[CatalogueProvider]:
        return []

    async def knows_tools(self, settings: ProviderSettings, model_id: str) -> bool | None:
        """Whether the model can be given tools, by trying; None when that cannot be found out."""
        return None

    async def renew(self, settings: ProviderSettings) -> ProviderSettings | None:
        """Newer credentials, on disk already; None when there are none to be had. Raises `ProviderError`."""
        return None

    async def check_key(self, settings: ProviderSettings, key: str) -> KeyChecked:
        """Whether the provider takes a key that is not kept yet."""
        return KeyChecked(verdict="unknown", message="this server has no way to ask")

    async def copilot_token(self, github_token: str) -> Token:
        """Raises `ProviderError`."""
        raise ProviderError("this server has no way to GitHub")

    async def log_in_to_copilot(self, show: Show) -> Token:
        """Raises `ProviderError`."""
        raise ProviderError("this server has no way to GitHub")


class Models:
    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        env: Mapping[str, str],
        hosts: Hosts,
        clock: Clock,
        tasks: TaskGroup,
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        """`changed` takes up what became known of a configured provider, and tells the room."""
        self._settings = settings
        self._env = env
        self._places = Places.of(env)
        self._hosts = hosts
        self._clock = clock
        self._tasks = tasks
        self._changed = changed
        self.copilot_login = DeviceLogin(hosts.log_in_to_copilot, self._keep_copilot, tasks)
        self._asked: dict[tuple[str, str], float] = {}
        self._local: tuple[float, list[CatalogueProvider]] | None = None

    async def offers(self) -> list[CatalogueProvider]:
        """What could be used: the catalogue, and the servers of this machine that answer now."""
        settings = self._settings()
        known = settings.catalogue.offers(registry.known_types())
        if not known:
            return []
        env = keys.overridden(self._env)
        told = [
            msgspec.structs.replace(e, missing="" if e.id in settings.providers else keys.advice(e, env))
            for e in known
        ]
        return told + await self._on_this_machine()

    async def remembered(self) -> RememberedModels:
        return await asyncio.to_thread(write.remembered, self._places.state_file)

    async def favor(self, body: FavoriteModel) -> None:
        await asyncio.to_thread(write.favor, self._places.state_file, body)

    async def check_key(self, body: KeyToCheck) -> KeyChecked:
        """Asked where the provider is reached anyway, never at an address of the caller's. Raises `BadRequest`."""
        if not body.provider_id or len(body.provider_id) > write.MAX_KEY_CHARS:
            raise BadRequest("provider_id is required")
        if not body.api_key or len(body.api_key) > MAX_KEY_CHARS:
            raise BadRequest(f"api_key is required, with at most {MAX_KEY_CHARS} characters")
        settings = keyless.reached(self._settings(), body.provider_id, self._env)
        return await self._hosts.check_key(settings, body.api_key)

    async def import_copilot(self) -> ImportedToken:
        """Take over the login of an editor's plug-in, where there is one. The token itself stays here. Raises
        `ProviderError` when GitHub does not accept it."""
        found = await asyncio.to_thread(tokens.of_editor, self._places.home)
        if not found:
            return ImportedToken(token=None, success=False)
        await self._keep_copilot(await self._hosts.copilot_token(found))
        return ImportedToken(token=None, success=True)

    async def _keep_copilot(self, token: Token) -> None:
        await asyncio.to_thread(tokens.store, self._places.state_file, "copilot", token)
        await self._changed()

    async def refresh_oauth(self, body: RefreshOauth) -> None:
        """Raises `BadRequest` when there is no login, `ProviderError` when it is over."""
        settings = self._settings().providers.get(body.provider_id)
        if settings is None or settings.token is None:
            raise BadRequest(f"provider {body.provider_id!r} has no OAuth login to refresh")
        if await self._hosts.renew(settings):
            await self._changed()

    async def remember(self, **picked: SelectedModel | UnsetType | None) -> None:
        """Note what a session chose, by role. That it cannot be noted is no reason to refuse the choice."""
        for role, model in picked.items():
            if model and model.model and model.provider:
                with suppress(OSError, BullpenError):
                    await asyncio.to_thread(write.remember_model, self._places.state_file, role, model)

    def follow(self) -> None:
        """Ask the hosts that say themselves which models they have, in the background."""
        settings = self._settings()
        wanted = [p for p in (*settings.providers.values(), *settings.unlisted.values()) if p.discovers]
        now = self._clock.monotonic()
        due = [p for p in wanted if now >= self._asked.get((p.id, p.base_url), float("-inf")) + ASK_AGAIN_S]
        if due:
            self._asked |= {(p.id, p.base_url): now for p in due}
            self._tasks.start_soon(self._ask, due)

    async def _ask(self, providers: Sequence[ProviderSettings]) -> None:
        try:
            answers = await self._hosts.ask(providers)
            for provider in providers:
                if provider.id in answers:
                    answers[provider.id] = await self._with_tools(provider, answers[provider.id])
            if await asyncio.to_thread(discovered.remember, self._places.cache, answers):
                await self._changed()
        except Exception as exc:
            # Nobody waits for this, and the workspace must not end with it.
            log.warning("what hosts said about their models is lost: %s", exc)

    async def _with_tools(self, provider: ProviderSettings, found: Found) -> Found:
        """The answer, and whether the models that are used here know tools, where the host did not say: tried once."""
        settings = self._settings()
        used = {s.model for s in (settings.large, settings.small) if s and s.provider == provider.id}
        before = discovered.read(self._places.cache).get((provider.id, provider.base_url))
        known = {m.id: m.supports_tools for m in (before.models if before else ())}
        models = []
        for model in found.models:
            tools = model.supports_tools if model.supports_tools is not UNSET else known.get(model.id, UNSET)
            if tools is UNSET and model.id in used:
                tried = await self._hosts.knows_tools(provider, model.id)
                tools = UNSET if tried is None else tried
            models.append(msgspec.structs.replace(model, supports_tools=tools))
        return msgspec.structs.replace(found, models=tuple(models))

    async def _on_this_machine(self) -> list[CatalogueProvider]:
        """Remembered too, so that a model that is chosen from the list is known with its size."""
        now = self._clock.monotonic()
        if self._local is None or now >= self._local[0] + LOOK_AGAIN_S:
            found = await self._hosts.on_this_machine()
            self._local = (now, found)
            answers = {
                entry.id: Found(base_url=entry.api_endpoint, models=entry.models, at=int(self._clock.time()))
                for entry in found
                if entry.id in LOCAL_IDS
            }
            with suppress(OSError):
                await asyncio.to_thread(discovered.remember, self._places.cache, answers)
        return self._local[1]
