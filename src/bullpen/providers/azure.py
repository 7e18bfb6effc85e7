"""OpenAI's models on Azure: Responses or chat completions of a resource, by the names of its deployments.

Every way in which Azure's pages write a resource's address is understood. Without an API version the resource's `v1`
interface is asked; a dated version means the older one, with deployments in the path.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from bullpen.config.settings import ProviderSettings
from bullpen.providers.base import ModelRequest
from bullpen.providers.library import LibraryProvider, Options
from bullpen.providers.openai_responses import (
    API,
    reasons,
    responses_model,
    responses_tuning,
    speaks_responses,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from pydantic_ai.models import Model

VERSIONS = ("AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION")
_DATED = re.compile(r"\d{4}-\d\d-\d\d")
_KNOWN_PATH = re.compile(r"/(openai|models|api/projects)(/.*)?$")


class Endpoint(NamedTuple):
    resource: str
    """Scheme and host, and whatever path a gateway in front of it needs."""
    api_version: str = ""

    @property
    def is_dated(self) -> bool:
        return bool(_DATED.match(self.api_version))


def endpoint_of(text: str) -> Endpoint:
    """The resource behind an address: a bare name, a host, or the address of one of its operations."""
    if "//" not in text:
        text = f"https://{text}" if "." in text or ":" in text else f"https://{text}.openai.azure.com"
    parts = urlsplit(text)
    path = _KNOWN_PATH.sub("", parts.path.rstrip("/"))
    version = parse_qs(parts.query).get("api-version", [""])[0]
    return Endpoint(f"{parts.scheme}://{parts.netloc}{path}", version)


class Azure(LibraryProvider):
    interface = "azure"
    own_options = frozenset({API, "api_version"})

    def make_model(self, request: ModelRequest, body: Options) -> Model:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.azure import AzureProvider

        client: Any = self._client(request)
        provider = AzureProvider(openai_client=client)
        if self._is_responses(request):
            return responses_model(request, client, provider)
        return OpenAIChatModel(request.model, provider=provider)

    def samples(self, request: ModelRequest) -> bool:
        return not reasons(request.model, can_reason=request.can_reason)

    def tuning(self, request: ModelRequest, body: Options) -> dict[str, Any]:
        if self._is_responses(request):
            return responses_tuning(request, body)
        effort = request.settings.reasoning_effort
        tuning: dict[str, Any] = {"extra_body": body}
        if reasons(request.model, can_reason=request.can_reason) and effort:
            tuning["openai_reasoning_effort"] = effort
        return tuning

    def _is_responses(self, request: ModelRequest) -> bool:
        wanted = self.option(request, API)
        return wanted == "responses" or (wanted != "chat" and speaks_responses(request.model))

    def _client(self, request: ModelRequest) -> AsyncOpenAI:
        from openai import AsyncAzureOpenAI, AsyncOpenAI

        endpoint = self._endpoint(request)
        if endpoint.is_dated:
            return AsyncAzureOpenAI(
                azure_endpoint=endpoint.resource,
                api_version=endpoint.api_version,
                api_key=self.settings.api_key,
                http_client=self.http,
                max_retries=0,
            )
        return AsyncOpenAI(
            base_url=f"{endpoint.resource}/openai/v1",
            # As a bearer it may also be a token of Entra; gateways before Azure look for the header of old.
            api_key=self.settings.api_key,
            default_headers={"api-key": self.settings.api_key},
            default_query={"api-version": endpoint.api_version} if endpoint.api_version else None,
            http_client=self.http,
            max_retries=0,
        )

    def _endpoint(self, request: ModelRequest) -> Endpoint:
        endpoint = endpoint_of(self.settings.base_url)
        version = self.option(request, "api_version") or _version_in(self.settings)
        return endpoint._replace(api_version=version) if version else endpoint


def _version_in(settings: ProviderSettings) -> str:
    return next((settings.environment[name] for name in VERSIONS if settings.environment.get(name)), "")
