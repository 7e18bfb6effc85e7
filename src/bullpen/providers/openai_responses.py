"""OpenAI's own models. Those that speak Responses are asked there, so that their reasoning goes back to them; all others by
chat completions.

Nothing is stored at OpenAI: reasoning comes encrypted with the answer and returns with the next request.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from bullpen.config.settings import ProviderSettings
from bullpen.providers.base import ModelEvent, ModelRequest
from bullpen.providers.http import ModelClient
from bullpen.providers.library import LibraryProvider, Options
from bullpen.providers.openai_compat import OpenAICompat
from bullpen.providers.options import affinity_of
from bullpen.providers.streaming import Limits

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from pydantic_ai.models import Model
    from pydantic_ai.models.openai import OpenAIResponsesModel

API = "api"
"""The provider option that decides: `chat` or `responses`."""

_RESPONSES = re.compile(r"(ft:)?(gpt-(?=[4-9]|\d\d)|o\d|codex|computer-use)")
_CHAT_ONLY = re.compile(r"-audio|-search-preview|-realtime|-transcribe|-tts")
_REASONING = re.compile(r"(ft:)?(gpt-(?=[5-9]|\d\d)|o\d|codex)(?!.*-chat)")
_NEVER_REASONING = re.compile(r"(ft:)?gpt-(3|4)")


def speaks_responses(model: str) -> bool:
    """Whether the model of this id is asked through Responses when nobody says otherwise."""
    name = _name(model)
    return bool(_RESPONSES.match(name)) and not _CHAT_ONLY.search(name)


def reasons(model: str, *, can_reason: bool = False) -> bool:
    """Whether the model reasons: by its id, or because the config says so of an id that tells nothing."""
    name = _name(model)
    return bool(_REASONING.match(name)) or (can_reason and not _NEVER_REASONING.match(name))


def _name(model: str) -> str:
    return model.rpartition("/")[2].lower()


class OpenAI:
    """Picks the interface by model."""

    def __init__(
        self, settings: ProviderSettings, http: ModelClient, *, limits: Limits | None = None
    ) -> None:
        self._responses = Responses(settings, http, limits=limits)
        chat = msgspec.structs.replace(settings, provider_options=_without_api(settings.provider_options))
        self._chat = OpenAICompat(chat, http, limits=limits)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One step. Leaving early closes the connection. Raises `ProviderError`."""
        wanted = self._responses.option(request, API)
        if wanted == "responses" or (wanted != "chat" and speaks_responses(request.model)):
            return self._responses.stream(request)
        options = request.settings.provider_options
        if options is not UNSET and API in options:
            chosen = msgspec.structs.replace(request.settings, provider_options=_without_api(options))
            request = msgspec.structs.replace(request, settings=chosen)
        return self._chat.stream(request)


class Responses(LibraryProvider):
    """The Responses interface over HTTP."""

    interface = "responses"
    own_options = frozenset({API})

    def make_model(self, request: ModelRequest, body: Options) -> Model:
        from openai import AsyncOpenAI
        from pydantic_ai.providers.openai import OpenAIProvider

        client = AsyncOpenAI(
            base_url=self.settings.base_url,
            # The library insists on a key; a host that needs none looks at none.
            api_key=self.settings.api_key or "none",
            http_client=self.http,
            max_retries=0,
        )
        return responses_model(request, client, OpenAIProvider(openai_client=client))

    def samples(self, request: ModelRequest) -> bool:
        return not reasons(request.model, can_reason=request.can_reason)

    def tuning(self, request: ModelRequest, body: Options) -> dict[str, Any]:
        return responses_tuning(request, body)


def responses_model(request: ModelRequest, client: AsyncOpenAI, provider: Any) -> OpenAIResponsesModel:
    """The library's model, told what it cannot know of ids that say nothing."""
    from pydantic_ai.models.openai import OpenAIResponsesModel

    does = reasons(request.model, can_reason=request.can_reason)
    profile: Any = {
        "openai_supports_encrypted_reasoning_content": does,
        "openai_supports_reasoning": does,
        "supports_thinking": does,
    }
    return OpenAIResponsesModel(request.model, provider=provider, profile=profile)


def responses_tuning(request: ModelRequest, body: Options) -> dict[str, Any]:
    tuning: dict[str, Any] = {
        "openai_store": False,
        "openai_prompt_cache_diagnostics": False,
        "openai_prompt_cache_key": affinity_of(request.session_id),
        "extra_body": body,
    }
    if reasons(request.model, can_reason=request.can_reason):
        tuning["openai_reasoning_summary"] = "auto"
        effort = request.settings.reasoning_effort
        if effort is not UNSET and effort:
            tuning["openai_reasoning_effort"] = effort
    return tuning


def _without_api(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != API}
