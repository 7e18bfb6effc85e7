"""A provider whose key or token is renewed when it has to be: before it expires, and once after it was refused."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers import credentials
from bullpen.providers.base import ModelEvent, ModelRequest, Provider
from bullpen.providers.http import ModelClient

Make = Callable[[ProviderSettings, ModelClient], Provider]


class Renewing:
    """Stands before the provider that `make` makes, and makes it anew with each new credential."""

    def __init__(self, settings: ProviderSettings, http: ModelClient, make: Make) -> None:
        self._settings = settings
        self._http = http
        self._make = make
        self._provider = make(settings, http)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One step. What was refused before it began is asked once more. Raises `ProviderError`."""
        self._take(await credentials.current(self._settings, self._http))
        used, has_begun = self._settings, False
        try:
            async with aclosing(self._provider.stream(request)) as events:
                async for event in events:
                    has_begun = True
                    yield event
            return
        except ProviderError as exc:
            if has_begun or exc.status != 401:
                raise
            renewed = await credentials.renew(used, self._http)
            if renewed is None:
                raise
        self._take(renewed)
        async with aclosing(self._provider.stream(request)) as events:
            async for event in events:
                yield event

    def _take(self, settings: ProviderSettings) -> None:
        if settings != self._settings:
            self._settings = settings
            self._provider = self._make(settings, self._http)
