"""What hosts say when they refuse, and what it means for us. Knows words and headers, nothing of connections."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from bullpen.errors import ProviderError, ProviderErrorKind

RETRYABLE = frozenset({408, 409, 429})
"""And whatever is 500 or more."""

RETRYABLE_TYPES = frozenset(
    {
        "server_error",
        "internal_error",
        "internal_server_error",
        "overloaded_error",
        "api_error",
        "rate_limit_error",
        "timeout_error",
    }
)

USED_UP = frozenset({"insufficient_quota", "billing_error", "billing_not_active", "credit_balance_exhausted"})
"""Limits that waiting does not lift: somebody has to pay."""

_BY_TYPE: dict[str, ProviderErrorKind] = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "invalid_api_key": "auth",
    "not_found_error": "missing",
    "model_not_found": "missing",
    "rate_limit_error": "limit",
    "rate_limit_exceeded": "limit",
    "overloaded_error": "overloaded",
    "context_length_exceeded": "overflow",
    "exceed_context_size_error": "overflow",
    "request_too_large": "overflow",
    **dict.fromkeys(USED_UP, "limit"),
}

_BY_STATUS: dict[int, ProviderErrorKind] = {
    401: "auth",
    402: "limit",
    403: "auth",
    404: "missing",
    405: "missing",
    413: "overflow",
    429: "limit",
    503: "overloaded",
    529: "overloaded",
}

VAGUE = frozenset({0, 200, 400, 404, 413, 422, 500})
"""Statuses that hosts use for all kinds of things; 0 is an error in the middle of an answer."""

OVERFLOWS = (
    # Anthropic, and hosts that copy it; the second is its check of the prompt together with the answer's limit.
    r"prompt is too long",
    r"input length and `?max_tokens`? exceed",
    # Bedrock.
    r"input is too long for requested model",
    # OpenAI, OpenRouter, vLLM, DeepSeek, Mistral and others with the same sentence.
    r"maximum context length",
    r"exceeds the (?:model's )?context (?:window|length)",
    # Gemini.
    r"exceeds the maximum number of tokens",
    # xAI.
    r"maximum prompt length is \d+",
    # Groq, Cerebras.
    r"reduce the length of the (?:messages|prompt|input)",
    # llama.cpp.
    r"exceeds? the available context size",
    # Ollama, LM Studio.
    r"(?:prompt|input) (?:is )?(?:too long|exceeds).{0,20}context (?:length|window|size)",
    r"greater than the context length",
    # Kimi, MiniMax, Z.AI, Alibaba.
    r"exceeded model token limit",
    r"context window exceeds limit",
    r"prompt exceeds max length",
    r"range of input length should be",
    # Copilot, and the codes of OpenAI where they are all that is said.
    r"exceeds the limit of \d+",
    r"context[_ ]length[_ ]exceeded",
    r"context[_ ]window[_ ]exceeded",
)
"""How vendors say that the conversation does not fit into the model."""

WORDS: dict[ProviderErrorKind, tuple[str, ...]] = {
    "overflow": OVERFLOWS,
    # Anthropic, DeepSeek, OpenAI: a credit is used up, whatever the status.
    "limit": (
        r"credit balance is too low",
        r"insufficient (?:balance|credits|quota)",
        r"exceeded your current quota",
    ),
    # OpenRouter, DeepSeek, Ollama, vLLM: all with the status of a bad request.
    "missing": (
        r"is not a valid model",
        r"model not exist",
        r"model .{1,80} (?:not found|does not exist)",
    ),
    # Gemini, and whoever takes a wrong key for a bad request too.
    "auth": (r"api key not valid", r"(?:invalid|incorrect) api key"),
}
"""What is said without a type or a status that tells it."""

_WORDS = {kind: re.compile("|".join(phrases), re.IGNORECASE) for kind, phrases in WORDS.items()}

_RESETS = re.compile(r"(?:anthropic|x)-ratelimit-(.+)-reset|x-ratelimit-reset-(.+)")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s|d)")
_SPAN_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_MILLISECONDS_FROM = 1e11
"""An epoch in seconds is below this for three thousand years, one in milliseconds has been above it since 1973."""


def trouble_of(status: int, types: Iterable[str], said: str) -> ProviderErrorKind:
    """What kind of refusal it is, by the most exact of what is known."""
    named = next((_BY_TYPE[each] for each in types if each in _BY_TYPE), None)
    if named is not None:
        return named
    # Where the status is exact it counts: rate limits speak of too many tokens as well.
    told = (kind for kind, words in _WORDS.items() if status in VAGUE and words.search(said))
    return next(told, _BY_STATUS.get(status, ""))


def error_in(error: Any, hide: Callable[[str], str] = str) -> ProviderError:
    """What a host said instead of going on with its answer."""
    facts = error if isinstance(error, dict) else {}
    code = facts.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else 0
    types, said = types_in(error), message_in(error)
    return ProviderError(
        hide(said) or "the model's host reported an error",
        status=status,
        retryable=is_retryable(status, types),
        kind=trouble_of(status, types, said),
    )


def is_retryable(status: int, types: Iterable[str]) -> bool:
    types = set(types)
    if types & USED_UP:
        return False
    return status in RETRYABLE or status >= 500 or bool(types & RETRYABLE_TYPES)


def message_in(value: Any) -> str:
    """The sentence in an error object, whatever its form."""
    match value:
        case str():
            return value
        case {"message": str(text)} if text:
            return text
        case {"error": inner} if inner:
            return message_in(inner)
        case {"detail": inner} if inner:
            return message_in(inner)
        case [first, *_]:
            return message_in(first)
    return ""


def types_in(value: Any) -> list[str]:
    """The names that an error object gives its kind, the most exact first."""
    match value:
        case {"error": dict() as inner}:
            return types_in(inner)
        case [dict() as first, *_]:
            return types_in(first)
        case dict():
            return [name for key in ("code", "type") if isinstance(name := value.get(key), str)]
    return []


def title_of(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Provider Error"


def retry_after_s(headers: Any, now: float) -> float | None:
    """How long the host asks to wait; None when it says nothing that can be understood."""
    milliseconds, said = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    for text, unit in ((milliseconds, 1000.0), (said, 1.0)):
        with contextlib.suppress(ValueError):
            wait_s = float(text) / unit
            if math.isfinite(wait_s):
                return max(0.0, wait_s)
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(said).timestamp() - now)
    return None


def resets_at(headers: Mapping[str, str], now: float) -> float | None:
    """When the last of the used-up limits begins anew; None when the host does not say.

    A limit of which something remains is not what refused us, except where nothing is said of what remains.
    """
    found: list[float] = []
    for name, text in headers.items():
        match = _RESETS.fullmatch(name.lower())
        if match or name.lower() == "x-ratelimit-reset":
            left = headers.get(name.lower().replace("reset", "remaining"), "0")
            moment = _moment(text.strip(), now)
            if moment is not None and left.strip() in ("", "0"):
                found.append(moment)
    return max(found, default=None)


def _moment(text: str, now: float) -> float | None:
    """A date, an epoch in seconds or milliseconds, or a span such as `6m0s`, as wall time."""
    with contextlib.suppress(ValueError):
        number = float(text)
        if not math.isfinite(number):
            return None
        if number > _MILLISECONDS_FROM:
            return number / 1000.0
        # Small numbers are spans: nobody's limit began anew in 1970.
        return number if number > now / 2 else now + max(0.0, number)
    if text and not _SPAN.sub("", text):
        return now + sum(float(number) * _SPAN_S[unit] for number, unit in _SPAN.findall(text))
    with contextlib.suppress(ValueError, OverflowError):
        return datetime.fromisoformat(text).timestamp()
    return None
