"""Models served over chat completions: OpenAI's own, and every host that copies that interface."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from bullpen.config.settings import ProviderSettings
from bullpen.providers.base import ModelEvent, ModelRequest
from bullpen.providers.chat_request import body_of
from bullpen.providers.chat_stream import ChatStream
from bullpen.providers.direct import Headers
from bullpen.providers.http import ModelClient
from bullpen.providers.options import affinity_headers
from bullpen.providers.streaming import Limits, ModelHost


class OpenAICompat:
    """Chat completions over HTTP."""

    def __init__(
        self, settings: ProviderSettings, http: ModelClient, *, limits: Limits | None = None
    ) -> None:
        base = settings.base_url.rstrip("/")
        url = base if base.endswith("/chat/completions") else f"{base}/chat/completions"
        credentials = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
        self._settings = settings
        self._host = ModelHost(settings, http, url, credentials, limits=limits)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One step. Leaving early closes the connection. Raises `ProviderError`."""
        body = msgspec.json.encode(body_of(request, self._settings))
        answer = ChatStream(self._host.hide, prices=self._settings.type == "openrouter")
        return self._host.stream(request, body, self.headers_of(request), answer)

    def headers_of(self, request: ModelRequest) -> Headers:
        """Those that differ from one request to the next."""
        return affinity_headers(request.session_id)
