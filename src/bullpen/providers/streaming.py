"""Asking a model's host and listening to its answer, whatever is spoken.

Thin on purpose: `ModelClient` moves the bytes, an `AnswerReader` reads them. Silence is watched here: pings keep a
connection open for ever without bringing anything, so only what means something counts.
"""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping

import anyio
import httpx2
import msgspec

from bullpen import __version__
from bullpen.config import catalogue
from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError, ProviderErrorKind
from bullpen.providers import refusals
from bullpen.providers.base import ModelEvent, ModelRequest
from bullpen.providers.direct import Headers
from bullpen.providers.http import ModelClient
from bullpen.providers.patience import Patience
from bullpen.providers.reading import AnswerReader, loads

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


class Limits(msgspec.Struct, frozen=True):
    first_event_s: float = FIRST_EVENT_LIMIT_S
    next_event_s: float = NEXT_EVENT_LIMIT_S


class ModelHost:
    """One provider's host, asked over HTTP. `credentials` are the headers that nobody may see."""

    def __init__(
        self,
        settings: ProviderSettings,
        http: ModelClient,
        url: str,
        credentials: Mapping[str, str],
        *,
        limits: Limits | None = None,
    ) -> None:
        self._settings = settings
        self._http = http
        self._limits = limits or Limits()
        self._url = url
        self._target: httpx2.URL | None = None
        self._fields: Headers = []
        self._headers = {
            "User-Agent": f"bullpen/{__version__}",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            **credentials,
        }
        self._secrets = secrets_of(settings)

    async def stream(
        self, request: ModelRequest, body: bytes, headers: Headers, answer: AnswerReader
    ) -> AsyncGenerator[ModelEvent, None]:
        """The answer to the body, as the reader understands it. Leaving early closes the connection. Raises
        `ProviderError`."""
        limit_s = self._limits.first_event_s
        deadline = anyio.current_time() + limit_s
        response = await self._open(body, headers, deadline)
        closing = contextlib.AsyncExitStack()
        closing.push_async_callback(response.aclose)
        try:
            kind = response.headers.get("content-type", "")
            if not response.is_success or kind.startswith("text/html"):
                raise await self._refusal(response, request.model)
            if kind.startswith("application/json"):
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
                        raise (silent(limit_s) if patience.expired else _broken(exc)) from exc
                    patience.reading = False
                    events = answer.feed(data)
                    for event in events:
                        yield event
                    # Only now: the time that our reader takes is not the host's silence.
                    if answer.finish and not is_finished:
                        is_finished = True
                        patience.renew(AFTER_FINISH_S)
                    elif events or answer.moved:
                        answer.moved = False
                        limit_s = self._limits.next_event_s
                        patience.renew(limit_s)
            if patience.expired and not answer.finish:
                raise silent(limit_s)
            for event in answer.end():
                yield event
            await _drain(chunks)
        finally:
            # Shielded, because a cancelled turn must close its connection too.
            with anyio.CancelScope(shield=True):
                await closing.aclose()

    def hide(self, text: str) -> str:
        """The text without secrets: some hosts repeat the key, or all headers, of what they refuse."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text

    async def _open(self, body: bytes, headers: Headers, deadline: float) -> httpx2.Response:
        """The response once its head is there. Raises `ProviderError`."""
        try:
            if self._target is None:
                self._target = httpx2.URL(self._url)
                fields = httpx2.Headers(self._headers)
                fields.update(self._settings.extra_headers)
                self._fields = fields.raw
            with anyio.CancelScope(deadline=deadline):
                return await self._http.ask(self._target, self._fields + headers, body)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError) as exc:
            raise unreachable(exc, self._settings, self._address) from exc
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, UnicodeError):
            # Without the cause: it may quote the key.
            raise ProviderError(
                f"the address or a header of provider {self._settings.id!r} is not valid;"
                f" correct base_url, api_key and extra_headers of providers.{self._settings.id}"
            ) from None
        except httpx2.HTTPError as exc:
            raise _broken(exc) from exc
        raise silent(self._limits.first_event_s)

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

    # What went wrong, in words

    async def _refusal(self, response: httpx2.Response, model: str) -> ProviderError:
        """What the host said instead of an answer."""
        status = response.status_code
        raw = b""
        with contextlib.suppress(ProviderError):
            raw = await self._body(response, ERROR_BODY_BYTES, anyio.current_time() + ERROR_BODY_LIMIT_S)
        if response.is_success:
            return self._not_an_answer()
        types: list[str] = []
        try:
            value = loads(raw)
            said, types = refusals.message_in(value), refusals.types_in(value)
        except ProviderError:
            said = raw.decode("utf-8", "replace").strip()[:500]
        trouble = refusals.trouble_of(status, types, said)
        title = refusals.title_of(status)
        words = self.hide(said) or f"the model's host answered {status} {title}"
        retryable = refusals.is_retryable(status, types)
        advice = response.headers.get("x-should-retry", "").lower()
        now = time.time()
        wait_s = refusals.retry_after_s(response.headers, now)
        resets_at = refusals.resets_at(response.headers, now) if trouble == "limit" else None
        if wait_s is None and resets_at is not None:
            wait_s = max(0.0, resets_at - now)
        return ProviderError(
            self._with_next_step(words, status, trouble, model),
            title=title,
            status=status,
            retryable=advice == "true" or (retryable and advice != "false"),
            retry_after_s=wait_s,
            kind=trouble,
            resets_at=resets_at,
        )

    def _with_next_step(self, words: str, status: int, trouble: ProviderErrorKind, model: str) -> str:
        if trouble == "auth" and status == 403:
            return f"{self._name} does not let this key use {model}: {words}; check the account, or set {self._key}"
        if trouble == "auth" and not self._settings.api_key:
            return f"{self._name} wants a key and has none: {words}; set {self._key}"
        if trouble == "auth":
            return f"the key for {self._name} was refused: {words}; set {self._key} to one that is valid"
        if trouble == "missing":
            return (
                f"{self._name} has no model {model!r} at {self._address}: {words};"
                f" choose another model or correct providers.{self._settings.id}.base_url"
            )
        return words

    def _not_an_answer(self) -> ProviderError:
        return ProviderError(
            f"{self._address} is a web page and no model; correct providers.{self._settings.id}.base_url",
            kind="missing",
        )

    @property
    def _name(self) -> str:
        return self._settings.name or self._settings.id

    @property
    def _address(self) -> str:
        """Without a user's name and password."""
        url = httpx2.URL(self._url)
        return f"{url.scheme}://{url.netloc.decode('ascii')}{url.path}"

    @property
    def _key(self) -> str:
        """Where a person sets the key."""
        known = catalogue.load().known(self._settings.id)
        variable = known.api_key.removeprefix("$") if known else ""
        place = f"providers.{self._settings.id}.api_key"
        return f"{variable} or {place}" if variable else place


def unreachable(exc: BaseException, settings: ProviderSettings, address: str) -> ProviderError:
    """Why there is no connection. A certificate that is not trusted will not be so a second later."""
    why, cause = _why(exc), exc.__cause__ or exc.__context__
    if isinstance(cause, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in why:
        return ProviderError(
            f"the certificate of {address} is not trusted: {why}; add its authority to the system's"
            " certificates, or name a file with it in SSL_CERT_FILE",
            title="Connection Error",
        )
    if isinstance(cause, ssl.SSLError) or "WRONG_VERSION_NUMBER" in why:
        return ProviderError(
            f"{address} does not speak TLS: {why}; try http:// in providers.{settings.id}.base_url",
            title="Connection Error",
        )
    through = "the proxy, " if isinstance(exc, httpx2.ProxyError) else ""
    return ProviderError(
        f"{settings.name or settings.id} cannot be reached: {why}; check {through}the network and"
        f" providers.{settings.id}.base_url ({address})",
        title="Connection Error",
        retryable=True,
    )


def secrets_of(settings: ProviderSettings) -> list[str]:
    """What must not be repeated to anybody, longest first: one may be a part of another.

    A short key is a placeholder of a local host and no secret."""
    _, _, user = settings.base_url.rpartition("@")[0].rpartition("//")
    key = settings.api_key
    values = {key, key.removeprefix("Bearer "), *settings.extra_headers.values(), *user.split(":")}
    return sorted((value for value in values if len(value) >= SHORTEST_SECRET), key=len, reverse=True)


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


def _why(exc: BaseException) -> str:
    return str(exc) or type(exc).__name__


def silent(limit_s: float) -> ProviderError:
    return ProviderError(
        f"the model was silent for {limit_s:g} s", title="Stream Transport Error", retryable=True
    )


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read what is left of a finished answer, if it is there already."""
    with contextlib.suppress(httpx2.HTTPError, httpx2.StreamError):
        with anyio.CancelScope(deadline=anyio.current_time() + DRAIN_LIMIT_S):
            async for _ in chunks:
                pass
