"""What goes wrong on a vendor's side of the library, as one sentence for a person."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelServerError,
    ModelUnavailableError,
)

from bullpen.config.redact import shown_url
from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError, ProviderErrorKind
from bullpen.providers import refusals
from bullpen.providers.library_events import unreadable
from bullpen.providers.streaming import unreachable

LONGEST_WORDS = 500
NEXT_STEPS = {
    "auth": "; check the credentials of provider {id!r}",
    "missing": "; choose another model or correct providers.{id}.base_url",
}
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def error_of(exc: Exception, settings: ProviderSettings, hide: Callable[[str], str]) -> ProviderError:
    """Ours for one of the library's, or of the libraries below it."""
    match exc:
        case ProviderError():
            return exc
        case ModelHTTPError():
            return _refused(exc, settings, hide)
        case ModelConnectionError(phase="connect" | "pool"):
            return unreachable(_root(exc), settings, shown_url(settings.base_url) or settings.type)
        case ModelConnectionError():
            return ProviderError(
                f"the connection to the model broke: {hide(_why(_root(exc)))}",
                title="Stream Transport Error",
                retryable=True,
            )
        case ModelAPIError(provider_error_code=str(code)):
            # In the middle of an answer, where there is no status.
            said = hide(str(exc)).removeprefix(f"{code}: ")[:LONGEST_WORDS]
            retryable = isinstance(exc, ModelRateLimitError | ModelUnavailableError | ModelServerError)
            return ProviderError(said, retryable=retryable, kind=_kind(exc))
        case ModelAPIError():
            return unreadable(hide(str(exc))[:LONGEST_WORDS])
    return unreadable(f"{type(exc).__name__}: {hide(str(exc))[:LONGEST_WORDS]}")


def _refused(exc: ModelHTTPError, settings: ProviderSettings, hide: Callable[[str], str]) -> ProviderError:
    """What the host said with a status of failure, before its answer or in the middle of it."""
    status = exc.status_code
    title = refusals.title_of(status)
    said = hide(_words(exc.body))[:LONGEST_WORDS] or f"the model's host answered {status} {title}"
    kind = _kind(exc) or refusals.trouble_of(status, refusals.types_in(exc.body), said)
    headers = {name.lower(): value for name, value in (exc.headers or {}).items()}
    now = time.time()
    resets_at = refusals.resets_at(headers, now) if kind == "limit" else None
    wait_s = refusals.retry_after_s(headers, now)
    if wait_s is None:
        wait_s = _delay_in(exc.body)
    if wait_s is None and resets_at is not None:
        wait_s = max(0.0, resets_at - now)
    retryable = refusals.is_retryable(status, ()) and not isinstance(exc, ModelQuotaExceededError)
    advice = exc.provider_retry_hint
    return ProviderError(
        said.rstrip(". ") + NEXT_STEPS[kind].format(id=settings.id) if kind in NEXT_STEPS else said,
        title=title,
        status=status,
        retryable=retryable if advice is None else advice,
        retry_after_s=wait_s,
        kind=kind,
        resets_at=resets_at,
    )


def _kind(exc: ModelAPIError) -> ProviderErrorKind:
    """The library knows the vendors' own words for it."""
    match exc:
        case ModelAuthenticationError():
            return "auth"
        case ModelContextWindowExceededError():
            return "overflow"
        case ModelRateLimitError() | ModelQuotaExceededError():
            return "limit"
    return ""


def _words(body: Any) -> str:
    match body:
        case {"Error": {"Message": str(text)}}:  # Amazon's package
            return text
    return refusals.message_in(body)


def _delay_in(body: Any) -> float | None:
    """How long Google asks to wait."""
    match body:
        case {"retryDelay": str(text)} if found := _DELAY.fullmatch(text):
            return float(found[1])
        case {"error": inner} | {"details": inner}:
            return _delay_in(inner)
        case list():
            return next((delay for each in body if (delay := _delay_in(each)) is not None), None)
    return None


def _root(exc: BaseException) -> BaseException:
    """The transport's own error; the vendors' packages mostly say "Connection error."."""
    while (inner := exc.__cause__ or exc.__context__) is not None:
        exc = inner
    return exc


def _why(exc: BaseException) -> str:
    return (str(exc) or type(exc).__name__)[:LONGEST_WORDS]
