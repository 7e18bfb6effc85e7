"""Models served over chat completions: OpenAI's own, and every host that copies that interface.

Thin on purpose: `httpx2` moves the bytes, `chat_stream` reads them. Silence is watched here: pings keep a
connection open for ever without bringing anything, so only events count.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import anyio
import httpx2
import msgspec

from bullpen import __version__
from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers.base import ModelEvent, ModelRequest
from bullpen.providers.chat_request import affinity_of, body_of
from bullpen.providers.chat_stream import ChatStream, message_in
from bullpen.providers.direct import Headers
from bullpen.providers.http import ModelClient
from bullpen.providers.patience import Patience

FIRST_EVENT_LIMIT_S = 120.0
"""Large prompts and reasoning models take their time before the first word."""

NEXT_EVENT_LIMIT_S = 90.0
"""Once a model speaks, silence means that it is gone."""

AFTER_FINISH_S = 5.0
"""How long the counts are waited for once the answer itself is complete."""

ERROR_BODY_LIMIT_S = 10.0
ERROR_BODY_BYTES = 64 * 1024
WHOLE_BODY_BYTES = 32 << 20

SHORTEST_SECRET = 8

DRAIN_LIMIT_S = 0.2
"""How long the end of a finished answer is waited for, so that the connection can be used again."""

RETRYABLE = frozenset({408, 409, 429})


class Limits(msgspec.Struct, frozen=True):
    first_event_s: float = FIRST_EVENT_LIMIT_S
    next_event_s: float = NEXT_EVENT_LIMIT_S


class OpenAICompat:
    """Chat completions over HTTP."""

    def __init__(
        self, settings: ProviderSettings, http: ModelClient, *, limits: Limits | None = None
    ) -> None:
        base = settings.base_url.rstrip("/")
        self._settings = settings
        self._http = http
        self._limits = limits or Limits()
        self._url = base if base.endswith("/chat/completions") else f"{base}/chat/completions"
        self._target: httpx2.URL | None = None
        self._fields: Headers = []
        self._headers = {
            "User-Agent": f"bullpen/{__version__}",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        if settings.api_key:
            self._headers["Authorization"] = f"Bearer {settings.api_key}"
        self._headers |= settings.extra_headers
        self._secrets = _secrets_of(settings)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One step. Leaving early closes the connection. Raises `ProviderError`."""
        limit_s = self._limits.first_event_s
        deadline = anyio.current_time() + limit_s
        response = await self._open(request, deadline)
        closing = contextlib.AsyncExitStack()
        closing.push_async_callback(response.aclose)
        try:
            if not response.is_success:
                raise await self._refusal(response)
            answer = ChatStream(self._without_secrets)
            if response.headers.get("content-type", "").startswith("application/json"):
                for event in answer.whole(await self._body(response, WHOLE_BODY_BYTES, deadline)):
                    yield event
                return
            # The loop below runs once per token: no helper, no second generator, no layer of the client that
            # has nothing to do.
            is_finished = False
            chunks = _chunks(response)
            closing.push_async_callback(chunks.aclose)
            with Patience(response, deadline) as patience:
                while not answer.done:
                    patience.reading = True
                    try:
                        data = await chunks.__anext__()
                    except StopAsyncIteration:
                        break
                    except (httpx2.HTTPError, httpx2.StreamError) as exc:
                        if answer.finish:
                            break
                        raise (_silent(limit_s) if patience.expired else _broken(exc)) from exc
                    patience.reading = False
                    events = answer.feed(data)
                    for event in events:
                        yield event
                    # Only now: the time that our reader takes is not the host's silence.
                    if answer.finish and not is_finished:
                        is_finished = True
                        patience.renew(AFTER_FINISH_S)
                    elif events:
                        limit_s = self._limits.next_event_s
                        patience.renew(limit_s)
            if patience.expired and not answer.finish:
                raise _silent(limit_s)
            for event in answer.end():
                yield event
            await _drain(chunks)
        finally:
            # Shielded, because a cancelled turn must close its connection too.
            with anyio.CancelScope(shield=True):
                await closing.aclose()

    async def _open(self, request: ModelRequest, deadline: float) -> httpx2.Response:
        """The response once its head is there. Raises `ProviderError`."""
        affinity = affinity_of(request.session_id).encode()
        body = msgspec.json.encode(body_of(request, self._settings))
        try:
            if self._target is None:
                self._target = httpx2.URL(self._url)
                self._fields = httpx2.Headers(self._headers).raw
            session = [(b"x-session-id", affinity), (b"x-session-affinity", affinity)]
            with anyio.CancelScope(deadline=deadline):
                return await self._http.ask(self._target, self._fields + session, body)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as exc:
            where = self._settings.name or self._settings.id
            raise ProviderError(
                f"{where} cannot be reached: {_why(exc)}", title="Connection Error", retryable=True
            ) from exc
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, UnicodeError):
            # Without the cause: it may quote the key.
            raise ProviderError(
                f"the address or a header of provider {self._settings.id!r} is not valid"
            ) from None
        except httpx2.HTTPError as exc:
            raise _broken(exc) from exc
        raise _silent(self._limits.first_event_s)

    async def _body(self, response: httpx2.Response, limit_bytes: int, deadline: float) -> bytes:
        """The body as far as it is small and comes in time. Raises `ProviderError`."""
        parts: list[bytes] = []
        size = 0
        try:
            with anyio.CancelScope(deadline=deadline):
                async for part in response.aiter_bytes():
                    parts.append(part)
                    size += len(part)
                    if size > limit_bytes:
                        break
        except httpx2.HTTPError as exc:
            raise _broken(exc) from exc
        return b"".join(parts)[:limit_bytes]

    async def _refusal(self, response: httpx2.Response) -> ProviderError:
        """What the host said with a status of failure."""
        status = response.status_code
        raw = b""
        with contextlib.suppress(ProviderError):
            raw = await self._body(response, ERROR_BODY_BYTES, anyio.current_time() + ERROR_BODY_LIMIT_S)
        try:
            said = message_in(msgspec.json.decode(raw))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            said = raw.decode("utf-8", "replace").strip()[:500]
        title = _phrase(status)
        retryable = status in RETRYABLE or status >= 500
        advice = response.headers.get("x-should-retry", "").lower()
        return ProviderError(
            self._without_secrets(said) or f"the model's host answered {status} {title}",
            title=title,
            status=status,
            retryable=advice == "true" or (retryable and advice != "false"),
            retry_after_s=retry_after_s(response.headers, time.time()),
        )

    def _without_secrets(self, text: str) -> str:
        """Some hosts repeat the key, or all headers, of what they refuse."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text


def _secrets_of(settings: ProviderSettings) -> list[str]:
    """What must not be repeated to anybody, longest first: one may be a part of another.

    A short key is a placeholder of a local host and no secret."""
    _, _, user = settings.base_url.rpartition("@")[0].rpartition("//")
    values = {settings.api_key, *settings.extra_headers.values(), *user.split(":")}
    return sorted((value for value in values if len(value) >= SHORTEST_SECRET), key=len, reverse=True)


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


def _chunks(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """The body as it comes in; only a host that compresses unasked costs the client's decoder."""
    plain = response.headers.get("content-encoding", "identity") == "identity"
    if plain and isinstance(response.stream, httpx2.AsyncByteStream):
        parts = aiter(response.stream)
        if isinstance(parts, AsyncGenerator):
            return parts
    return response.aiter_bytes()


def _broken(exc: Exception) -> ProviderError:
    """The connection's error as ours; it may be gone at the next try."""
    return ProviderError(
        f"the connection to the model broke: {_why(exc)}", title="Stream Transport Error", retryable=True
    )


def _why(exc: Exception) -> str:
    return str(exc) or type(exc).__name__


def _silent(limit_s: float) -> ProviderError:
    return ProviderError(
        f"the model was silent for {limit_s:g} s", title="Stream Transport Error", retryable=True
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Provider Error"


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read what is left of a finished answer, if it is there already."""
    with contextlib.suppress(httpx2.HTTPError, httpx2.StreamError):
        with anyio.CancelScope(deadline=anyio.current_time() + DRAIN_LIMIT_S):
            async for _ in chunks:
                pass
