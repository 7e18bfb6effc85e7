"""Models on Google's Vertex: Gemini by Google's client, Claude by Anthropic's.

Project and location come from the provider's options or `VERTEXAI_PROJECT` and `VERTEXAI_LOCATION`; who asks, from the
application default credentials.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers.base import ModelEvent, ModelRequest
from bullpen.providers.gemini import Gemini
from bullpen.providers.http import ModelClient
from bullpen.providers.library import LibraryProvider, Options, thinking
from bullpen.providers.streaming import Limits

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from pydantic_ai.models import Model

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOGIN = "run 'gcloud auth application-default login' or set GOOGLE_APPLICATION_CREDENTIALS"


class Vertex:
    """Picks the client by model: ids with `claude` or `anthropic` are Anthropic's."""

    def __init__(
        self, settings: ProviderSettings, http: ModelClient, *, limits: Limits | None = None
    ) -> None:
        self._gemini = VertexGemini(settings, http, limits=limits)
        self._claude = VertexClaude(settings, http, limits=limits)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One step. Leaving early closes the connection. Raises `ProviderError`."""
        is_claude = any(name in request.model.lower() for name in ("claude", "anthropic"))
        return (self._claude if is_claude else self._gemini).stream(request)


class VertexGemini(Gemini):
    interface = "vertex"
    own_options = frozenset({"api_version", "project", "location"})

    def make_model(self, request: ModelRequest, body: Options) -> Model:
        from google.genai.client import Client
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google_cloud import GoogleCloudProvider

        http_options = self.http_options(request, body, "v1beta1")
        if self.settings.api_key:
            client = Client(vertexai=True, api_key=self.settings.api_key, http_options=http_options)
        else:
            client = Client(
                vertexai=True,
                project=project_of(self, request),
                location=location_of(self, request),
                credentials=_credentials(self.settings),
                http_options=http_options,
            )
        return GoogleModel(request.model, provider=GoogleCloudProvider(client=client))

    def explain(self, exc: Exception) -> ProviderError | None:
        return _explain(self, exc)


class VertexClaude(LibraryProvider):
    interface = "vertex-claude"
    own_options = VertexGemini.own_options

    def make_model(self, request: ModelRequest, body: Options) -> Model:
        from anthropic import AsyncAnthropicVertex
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropicVertex(
            region=location_of(self, request),
            project_id=project_of(self, request),
            credentials=_credentials(self.settings),
            base_url=self.settings.base_url or None,
            http_client=self.http,
            max_retries=0,
        )
        return AnthropicModel(request.model, provider=AnthropicProvider(anthropic_client=client))

    def samples(self, request: ModelRequest) -> bool:
        return not thinking(request, by_itself=False)

    def tuning(self, request: ModelRequest, body: Options) -> dict[str, Any]:
        wanted = thinking(request, by_itself=False)
        marks = ("instructions", "tool_definitions", "messages")
        tuning: dict[str, Any] = {
            **{f"anthropic_cache_{where}": self.caches(request) for where in marks},
            "extra_body": body,
        }
        return tuning if wanted is None else tuning | {"thinking": wanted}

    def explain(self, exc: Exception) -> ProviderError | None:
        return _explain(self, exc)


def project_of(provider: LibraryProvider, request: ModelRequest) -> str:
    """Raises `ProviderError`."""
    return _needed(provider, request, "project", ("VERTEXAI_PROJECT", "GOOGLE_CLOUD_PROJECT"))


def location_of(provider: LibraryProvider, request: ModelRequest) -> str:
    """Raises `ProviderError`."""
    return _needed(provider, request, "location", ("VERTEXAI_LOCATION", "GOOGLE_CLOUD_LOCATION"))


def _needed(provider: LibraryProvider, request: ModelRequest, name: str, variables: tuple[str, ...]) -> str:
    known = provider.settings.environment
    found = provider.option(request, name) or next((known[v] for v in variables if known.get(v)), "")
    if not found:
        raise ProviderError(
            f"provider {provider.settings.id!r} has no {name}; set {variables[0]} or its provider_options.{name}"
        )
    return found


def _credentials(settings: ProviderSettings) -> Credentials:
    """The application default ones: the file that the workspace's environment names, that of `gcloud` in its person's
    home, or the machine's own."""
    import google.auth
    from google.auth import compute_engine, exceptions
    from google.auth.compute_engine import _metadata
    from google.auth.transport.requests import Request

    # Their functions are not typed.
    auth: Any = google.auth
    machine: Any = compute_engine
    metadata: Any = _metadata
    errors: Any = exceptions
    known = settings.environment
    file = known.get("GOOGLE_APPLICATION_CREDENTIALS") or _file_of_gcloud(known)
    found: Credentials
    if file:
        found, _ = auth.load_credentials_from_file(file, scopes=[SCOPE])
        return found
    # `google.auth.default` would ask the variables and the home of this process first.
    if known.get("NO_GCE_CHECK") == "true" or not metadata.is_on_gce(Request()):
        raise errors.DefaultCredentialsError("there are no application default credentials")
    found = machine.Credentials(scopes=[SCOPE])
    return found


def _file_of_gcloud(known: dict[str, str]) -> str:
    """Where `gcloud auth application-default login` leaves what it got; "" when it was not run."""
    home = Path(known.get("HOME") or Path.home()) / ".config/gcloud"
    file = Path(known.get("CLOUDSDK_CONFIG") or home) / "application_default_credentials.json"
    return str(file) if file.is_file() else ""


def _explain(provider: LibraryProvider, exc: Exception) -> ProviderError | None:
    """What is wrong with the login; it may have expired while we were running."""
    from google.auth.exceptions import GoogleAuthError, TransportError

    cause: BaseException | None = exc
    while cause is not None and not isinstance(cause, GoogleAuthError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    said = provider.hide(str(cause.args[0] if cause.args else cause)).rstrip(". ")
    provider.forget_models()
    if isinstance(cause, TransportError):
        return ProviderError(f"Google's login host cannot be reached: {said}", retryable=True)
    return ProviderError(
        f"Google's login does not work: {said}; {LOGIN}", title="Unauthorized", status=401, kind="auth"
    )
