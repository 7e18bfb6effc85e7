"""Asks hosts which models they have, and the usual places of this machine whether a model server is there.

Nothing waits for this but whoever asks what is offered: not the start, not a prompt. All hosts are asked at the same time,
with short limits, and a failure is a sentence in the answer, so that nobody wonders where a provider went. Only this
machine is ever asked unbidden; another host is asked because somebody configured it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import anyio
import httpx2
import msgspec

from bullpen import __version__
from bullpen.config.catalogue import LOCAL
from bullpen.config.discovered import Found
from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers import anthropic, listing
from bullpen.schema.agent import CatalogueProvider, Model

LIMIT_S = 3.0
"""For one host altogether. One that takes longer to list its models is not going to be pleasant to talk to."""

LOCAL_LIMIT_S = 1.0
"""On this machine an answer takes milliseconds, and somebody waits for the list."""

TRY_LIMIT_S = 30.0
"""For a model's first word: it may have to be loaded first."""

THIS_MACHINE = frozenset({"127.0.0.1", "localhost", "::1"})

AT_ONCE = 5
"""How many models of one Ollama are looked at side by side."""

MAX_BYTES = 16 << 20

Http = httpx2.AsyncClient


async def on_this_machine(
    http: Http, places: Sequence[CatalogueProvider] = LOCAL, *, limit_s: float = LOCAL_LIMIT_S
) -> list[CatalogueProvider]:
    """The model servers that answer at their usual places, with their models."""
    asked = [ProviderSettings(id=p.id, name=p.name, type=p.type, base_url=p.api_endpoint) for p in places]
    found = await ask_all(asked, http, limit_s=limit_s)
    return [
        msgspec.structs.replace(
            place,
            models=found[place.id].models,
            default_large_model_id=found[place.id].models[0].id,
            default_small_model_id=found[place.id].models[0].id,
        )
        for place in places
        if found[place.id].models
    ]


async def ask_all(
    providers: Sequence[ProviderSettings], http: Http, *, limit_s: float = LIMIT_S
) -> dict[str, Found]:
    """What each of them says, by id."""
    answers: dict[str, Found] = {}

    async def one(settings: ProviderSettings) -> None:
        answers[settings.id] = await ask(settings, http, limit_s=limit_s)

    async with anyio.create_task_group() as tasks:
        for settings in providers:
            tasks.start_soon(one, settings)
    return answers


async def ask(settings: ProviderSettings, http: Http, *, limit_s: float = LIMIT_S) -> Found:
    """The models of one host, or a sentence about why they are not known."""
    try:
        models = await list_models(settings, http, limit_s=limit_s)
    except ProviderError as exc:
        return Found(base_url=settings.base_url, error=exc.details, at=int(time.time()))
    error = "" if models else f"{_where(settings)} has no models to talk to"
    return Found(base_url=settings.base_url, models=models, error=error, at=int(time.time()))


async def list_models(
    settings: ProviderSettings, http: Http, *, limit_s: float = LIMIT_S
) -> tuple[Model, ...]:
    """Raises `ProviderError`; its status is 401 or 403 when the key was refused."""
    asking = _Asking(settings, http)
    try:
        with anyio.fail_after(limit_s):
            return await _of_type(settings.type, asking)
    except TimeoutError:
        raise ProviderError(f"{_where(settings)} did not answer within {limit_s:g} s") from None


async def test_key(settings: ProviderSettings, http: Http, *, limit_s: float = LIMIT_S) -> None:
    """Raises `ProviderError` when the key does not work; its status is 401 or 403 when it was refused.

    Lists of models need no key at OpenRouter, so it is asked for the account's credits."""
    if settings.type != "openrouter":
        await list_models(settings, http, limit_s=limit_s)
        return
    asking = _Asking(settings, http)
    try:
        with anyio.fail_after(limit_s):
            await asking.get(asking.base + "/credits")
    except TimeoutError:
        raise ProviderError(f"{_where(settings)} did not answer within {limit_s:g} s") from None


async def knows_tools(
    settings: ProviderSettings, model_id: str, http: Http, *, limit_s: float = TRY_LIMIT_S
) -> bool | None:
    """Whether a model of this machine can be given tools, found out by giving it one; None when it cannot be found out.

    Other machines are not asked: the request may cost something."""
    if httpx2.URL(settings.base_url).host not in THIS_MACHINE:
        return None
    nothing = {"type": "object", "properties": {}}
    body = {
        "model": model_id,
        "messages": [{"role": "user", "content": "Say ok."}],
        "max_tokens": 1,
        "tool_choice": "auto",
        "tools": [
            {"type": "function", "function": {"name": "nothing", "description": "", "parameters": nothing}}
        ],
    }
    asking = _Asking(settings, http)
    try:
        with anyio.fail_after(limit_s):
            status, said = await asking.send("POST", asking.base + "/chat/completions", body)
    except (TimeoutError, ProviderError):
        return None
    if status == 200:
        return True
    return False if b"tool" in said.lower() else None


async def _of_type(kind: str, asking: _Asking) -> tuple[Model, ...]:
    match kind:
        case "ollama":
            return await _ollama(asking)
        case "lmstudio":
            return await _lmstudio(asking)
        case "llamacpp":
            answer = await asking.get(asking.root + "/v1/models")
            return listing.llamacpp(answer, await asking.maybe(asking.root + "/props"))
        case "litellm":
            priced = listing.litellm(await asking.maybe(asking.root + "/model/info"))
            return priced or listing.plain(await asking.get(asking.base + "/models"))
        case "omlx":
            sized = listing.omlx(await asking.maybe(asking.base + "/models/status"))
            return sized or listing.plain(await asking.get(asking.base + "/models"))
        case "anthropic":
            return listing.plain(await asking.get(asking.root + "/v1/models?limit=1000"))
        case "google":
            return listing.plain(await asking.get(asking.root + "/v1beta/models?pageSize=1000"))
    return listing.plain(await asking.get(asking.base + "/models"))


async def _ollama(asking: _Asking) -> tuple[Model, ...]:
    tags = await asking.get(asking.root + "/api/tags")
    shown: dict[str, Any] = {}
    room = anyio.CapacityLimiter(AT_ONCE)

    async def show(name: str) -> None:
        async with room:
            shown[name] = await asking.maybe(asking.root + "/api/show", {"model": name})

    async with anyio.create_task_group() as tasks:
        for model in listing.ollama(tags, {}, None):
            tasks.start_soon(show, model.id)
    return listing.ollama(tags, shown, await asking.maybe(asking.root + "/api/ps"))


async def _lmstudio(asking: _Asking) -> tuple[Model, ...]:
    for path in ("/api/v1/models", "/api/v0/models"):
        if models := listing.lmstudio(await asking.maybe(asking.root + path)):
            return models
    return listing.plain(await asking.get(asking.base + "/models"))


class _Asking:
    """One host, with its key. `base` is the address as it was configured, `root` the same without its version."""

    def __init__(self, settings: ProviderSettings, http: Http) -> None:
        self.base = settings.base_url.rstrip("/")
        self.root = self.base.removesuffix("/v1").removesuffix("/v1beta").rstrip("/")
        self._settings = settings
        self._http = http

    async def get(self, url: str) -> Any:
        return await self._ask("GET", url, None)

    async def maybe(self, url: str, body: Mapping[str, Any] | None = None) -> Any:
        """None where the host does not know the question. Raises `ProviderError` only when it cannot be reached."""
        try:
            return await self._ask("GET" if body is None else "POST", url, body)
        except ProviderError as exc:
            if not exc.status:
                raise
            return None

    async def _ask(self, method: str, url: str, body: Mapping[str, Any] | None) -> Any:
        status, raw = await self.send(method, url, body)
        where = _where(self._settings)
        if status in (401, 403):
            raise ProviderError(
                f"{where} refused the key ({status}); set another with 'bullpen login {self._settings.id}'",
                status=status,
            )
        if status != 200:
            raise ProviderError(
                f"{where} answered {status} when it was asked for its models; is its base_url right?",
                status=status,
            )
        try:
            return msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise ProviderError(
                f"{where} did not answer with a list of models; is its base_url right?", status=200
            ) from None

    async def send(self, method: str, url: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        """Status and body of the answer. Raises `ProviderError` when there is none."""
        content = None if body is None else msgspec.json.encode(body)
        headers = {"Accept": "application/json", "User-Agent": f"bullpen/{__version__}"}
        headers |= _credentials(self._settings)
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            request = self._http.build_request(method, url, headers=headers, content=content)
            response = await self._http.send(request, stream=True)
            try:
                return response.status_code, await _bounded(response)
            finally:
                await response.aclose()
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, UnicodeError):
            # Without the cause: it may quote the key.
            raise ProviderError(
                f"the address or a header of provider {self._settings.id!r} is not valid"
            ) from None
        except httpx2.HTTPError as exc:
            why = str(exc) or type(exc).__name__
            where = _where(self._settings)
            raise ProviderError(f"{where} cannot be reached: {why}", retryable=True) from None


async def _bounded(response: httpx2.Response) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            break
    return b"".join(parts)


def _credentials(settings: ProviderSettings) -> dict[str, str]:
    if settings.type == "anthropic":
        return anthropic.headers_of(settings)
    headers: dict[str, str] = {}
    if settings.api_key:
        match settings.type:
            case "google":
                headers = {"x-goog-api-key": settings.api_key}
            case "azure":
                headers = {"api-key": settings.api_key}
            case _:
                headers = {"Authorization": f"Bearer {settings.api_key.removeprefix('Bearer ')}"}
    return headers | settings.extra_headers


def _where(settings: ProviderSettings) -> str:
    """The provider and its address, without what may be secret in it."""
    url = settings.base_url.partition("?")[0]
    scheme, _, rest = url.rpartition("://")
    host = rest.rpartition("@")[2] if "@" in rest.partition("/")[0] else rest
    return f"{settings.name or settings.id} at {scheme}://{host}" if scheme else settings.name or settings.id
