"""GitHub Copilot: chat completions behind a login, for whoever looks like an editor."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers.base import AssistantTurn, ModelEvent, ModelRequest, Provider, ToolTurn, UserTurn
from bullpen.providers.direct import Headers
from bullpen.providers.http import ModelClient
from bullpen.providers.openai_compat import OpenAICompat
from bullpen.providers.streaming import Limits

EDITOR = {
    "User-Agent": "GitHubCopilotChat/0.35.0",
    "Editor-Version": "vscode/1.107.0",
    "Editor-Plugin-Version": "copilot-chat/0.35.0",
    "Copilot-Integration-Id": "vscode-chat",
}
"""Without these the host answers nobody."""


class Copilot:
    """Chat completions, and Responses for the models that are served nowhere else."""

    def __init__(
        self, settings: ProviderSettings, http: ModelClient, *, limits: Limits | None = None
    ) -> None:
        headers = EDITOR | {"Openai-Intent": "conversation-edits"} | settings.extra_headers
        self._settings = msgspec.structs.replace(settings, extra_headers=headers)
        self._http = http
        self._limits = limits
        self._chat = _Chat(self._settings, http, limits=limits)
        self._responses: dict[str, Provider] = {}

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """One step. Leaving early closes the connection. Raises `ProviderError`."""
        model = self._settings.model(request.model)
        if model and model.options and model.options.get("api") == "responses":
            return self._over_responses(initiator(request)).stream(request)
        return self._chat.stream(request)

    def _over_responses(self, who: str) -> Provider:
        """The library has its headers from the settings, so there is one provider for each who may begin."""
        if who not in self._responses:
            from bullpen.providers.openai_responses import Responses

            headers = self._settings.extra_headers | {"X-Initiator": who}
            told = msgspec.structs.replace(self._settings, extra_headers=headers)
            self._responses[who] = Responses(told, self._http, limits=self._limits)
        return self._responses[who]


class _Chat(OpenAICompat):
    def headers_of(self, request: ModelRequest) -> Headers:
        fields = [*super().headers_of(request), (b"X-Initiator", initiator(request).encode())]
        if _has_picture(request):
            fields.append((b"Copilot-Vision-Request", b"true"))
        return fields


def initiator(request: ModelRequest) -> str:
    """Who began: a prompt of a person is counted, what an agent goes on with or hands on is not."""
    has_spoken = any(isinstance(turn, AssistantTurn | ToolTurn) for turn in request.turns)
    is_prompt = request.purpose == "turn" and not request.for_agent
    return "user" if is_prompt and not has_spoken else "agent"


def _has_picture(request: ModelRequest) -> bool:
    return any(
        (isinstance(turn, UserTurn) and any(f.mime_type.startswith("image/") for f in turn.files))
        or (isinstance(turn, ToolTurn) and turn.result.mime_type.startswith("image/"))
        for turn in request.turns
    )


def no_subscription() -> ProviderError:
    return ProviderError(
        "this GitHub account has no access to Copilot; get a subscription at https://github.com/settings/copilot",
        title="Forbidden",
        status=403,
    )
