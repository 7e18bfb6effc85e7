"""Google's Gemini models, asked with a key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bullpen.providers.base import ModelRequest
from bullpen.providers.library import LibraryProvider, Options, thinking

if TYPE_CHECKING:
    from google.genai.types import HttpOptions
    from pydantic_ai.models import Model

API_VERSION = "v1beta"
"""What thoughts and their signatures are documented for."""

_VERSION = re.compile(r"/(v\d\w*)$")


class Gemini(LibraryProvider):
    """`streamGenerateContent` of the Gemini API."""

    interface = "google"
    own_options = frozenset({"api_version"})

    def make_model(self, request: ModelRequest, body: Options) -> Model:
        from google.genai.client import Client
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        http_options = self.http_options(request, body, API_VERSION)
        client = Client(vertexai=False, api_key=self.settings.api_key, http_options=http_options)
        return GoogleModel(request.model, provider=GoogleProvider(client=client))

    def tuning(self, request: ModelRequest, body: Options) -> dict[str, Any]:
        wanted = thinking(request, by_itself=True)
        return {} if wanted is None else {"thinking": wanted}

    def http_options(self, request: ModelRequest, body: Options, api_version: str) -> HttpOptions:
        """An address may end in its version, as hosts write it in their documentation."""
        from google.genai.types import HttpOptions

        base = self.settings.base_url.rstrip("/")
        found = _VERSION.search(base)
        return HttpOptions(
            base_url=_VERSION.sub("", base) or None,
            api_version=self.option(request, "api_version") or (found[1] if found else api_version),
            httpx_async_client=self.http,
            extra_body=body or None,
        )
