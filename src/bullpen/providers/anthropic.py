"""Models served over Anthropic's Messages interface: its own, and every host that copies it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from bullpen.config.settings import ProviderSettings
from bullpen.providers.anthropic_request import body_of, form_of
from bullpen.providers.anthropic_stream import AnthropicStream
from bullpen.providers.anthropic_thinking import beta_of
from bullpen.providers.base import ModelEvent, ModelRequest
from bullpen.providers.direct import Headers
from bullpen.providers.http import ModelClient
from bullpen.providers.options import affinity_headers
from bullpen.providers.streaming import Limits, ModelHost

BASE_URL = "https://api.anthropic.com"
VERSION = "2023-06-01"

BEARER = "Bearer "
LOGIN = "sk-ant-oat"
"""How the tokens of a login begin, which are no keys."""

BETA = "anthropic-beta"
LOGIN_BETA = "oauth-2025-04-20"


class Anthropic:
    """Messages over HTTP."""

    def __init__(
        self, settings: ProviderSettings, http: ModelClient, *, limits: Limits | None = None
    ) -> None:
        # The betas of a request depend on what it asks for, so those of the config are sent with them.
        rest, self._betas = split_betas(settings)
        self._form = form_of(settings)
        self._settings = settings
        self._host = ModelHost(
            msgspec.structs.replace(settings, extra_headers=rest),
            http,
            address_of(settings.base_url),
            {"anthropic-version": VERSION, **credentials_of(settings)},
            limits=limits,
        )

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One step. Leaving early closes the connection. Raises `ProviderError`."""
        body = body_of(request, self._settings)
        headers: Headers = affinity_headers(request.session_id)
        if betas := [*self._betas, *filter(None, [beta_of(body)])]:
            headers.append((BETA.encode(), ",".join(dict.fromkeys(betas)).encode()))
        answer = AnthropicStream(self._host.hide, self._form)
        return self._host.stream(request, msgspec.json.encode(body), headers, answer)


def address_of(base_url: str) -> str:
    base = (base_url or BASE_URL).rstrip("/")
    if base.endswith("/v1/messages"):
        return base
    return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"


def credentials_of(settings: ProviderSettings) -> dict[str, str]:
    """A key has a header of its own; a token, and whatever is written with `Bearer`, is an authorization."""
    key = settings.api_key
    if not key:
        return {}
    if key.startswith(BEARER):
        return {"Authorization": key}
    is_minimax = "minimax" in settings.id.lower() or "minimax" in settings.base_url.lower()
    if is_minimax or key.startswith(LOGIN):
        return {"Authorization": BEARER + key}
    return {"x-api-key": key}


def split_betas(settings: ProviderSettings) -> tuple[dict[str, str], list[str]]:
    """The config's headers without its betas, and these with the one that a login needs."""
    asked = {name: text for name, text in settings.extra_headers.items() if name.lower() == BETA}
    rest = {name: text for name, text in settings.extra_headers.items() if name not in asked}
    return rest, [*asked.values(), *([LOGIN_BETA] if settings.api_key.startswith(LOGIN) else [])]


def headers_of(settings: ProviderSettings) -> dict[str, str]:
    """What a request that is no step carries, such as the one for a list of models."""
    rest, betas = split_betas(settings)
    headers = {"anthropic-version": VERSION, **credentials_of(settings)}
    return headers | ({BETA: ",".join(betas)} if betas else {}) | rest
