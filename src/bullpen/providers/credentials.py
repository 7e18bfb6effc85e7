"""Keys and tokens that have to be renewed while a server runs: logins that expire, keys that a command prints.

    current(settings, http)   before a request: the same settings, or newer ones when the token is about to expire
    renew(settings, http)     once after a request was refused with 401: newer settings, or None when nothing helps

Both are plain functions; `renewing.Renewing` calls them for every provider that needs it, so the engine has nothing to do
with it. A token is renewed by one process at a time; the others find it on disk and take that. An exchange is finished and
written down even if the turn that wanted it is cancelled meanwhile: its old refresh token may be good for nothing by then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import anyio
import httpx2
import msgspec

from bullpen.config import tokens
from bullpen.config.keys import Token
from bullpen.config.settings import ProviderSettings
from bullpen.errors import ConfigError, ProviderError
from bullpen.providers import refusals

log = logging.getLogger(__name__)

LOCK_LIMIT_S = 45.0
"""An exchange takes a second; whoever holds the lock longer than this hangs."""

POLL_S = 0.05
EXCHANGE_LIMIT_S = 30.0

Http = httpx2.AsyncClient
Now = Callable[[], float]


async def current(settings: ProviderSettings, http: Http, *, now: Now = time.time) -> ProviderSettings:
    """A token that cannot be renewed now is used to its end. Raises `ProviderError` when the login is over."""
    token = settings.token
    if token is None or not token.is_stale(now()):
        return settings
    return _with(settings, await _renewed(settings, token, http, now, refused=False))


async def renew(settings: ProviderSettings, http: Http, *, now: Now = time.time) -> ProviderSettings | None:
    """Raises `ProviderError` when the login is over."""
    if settings.token is not None:
        return _with(settings, await _renewed(settings, settings.token, http, now, refused=True))
    if settings.key_source is None:
        return None
    try:
        key = await asyncio.to_thread(settings.key_source.read)
    except ConfigError as exc:
        raise ProviderError(f"the key of provider {settings.id!r} cannot be had: {exc}", status=401) from exc
    return None if not key or key == settings.api_key else msgspec.structs.replace(settings, api_key=key)


def _with(settings: ProviderSettings, token: Token) -> ProviderSettings:
    url = token.endpoint if settings.token and settings.base_url == settings.token.endpoint else ""
    return msgspec.structs.replace(
        settings, token=token, api_key=token.access_token, base_url=url or settings.base_url
    )


async def _renewed(settings: ProviderSettings, old: Token, http: Http, now: Now, *, refused: bool) -> Token:
    """A token that is newer than `old`, from disk or from the host; without one `old` itself while it is good, which it
    is not any more once it was `refused`. Raises `ProviderError`."""
    file = Path(settings.token_file)
    with tokens.lock_file(file, settings.id) as descriptor:
        with anyio.move_on_after(LOCK_LIMIT_S) as waiting:
            while not tokens.try_lock(descriptor):
                await anyio.sleep(POLL_S)
        latest = await asyncio.to_thread(tokens.read, file, settings.id)
        if latest is None:
            raise log_in_again(settings)  # Somebody logged out.
        is_newer = latest.access_token != old.access_token
        if is_newer and not latest.is_stale(now()):
            return latest
        try:
            if waiting.cancelled_caught:
                raise ProviderError(
                    f"another process is busy renewing the login of {settings.id!r}", retryable=True
                )
            kept = await _exchanged(settings, latest, http, now)
        except ProviderError as exc:
            if latest.has_ended(now()) or (refused and not is_newer):
                raise
            log.warning("the login of %r is used as it is: %s", settings.id, exc)
            return latest
        if kept is None:
            raise log_in_again(settings)
        return kept


async def _exchanged(settings: ProviderSettings, token: Token, http: Http, now: Now) -> Token | None:
    """The login on disk after the token was exchanged; None when somebody logged out meanwhile. Raises `ProviderError`."""
    if not token.can_be_renewed:
        raise log_in_again(settings)
    with anyio.CancelScope(shield=True):
        fresh = await exchange(settings, token, http, now)
        kept: Token | None = fresh
        try:
            file = Path(settings.token_file)
            kept = await asyncio.to_thread(tokens.replace, file, settings.id, token, fresh)
        except (OSError, ConfigError) as exc:
            log.warning("the renewed login of %r could not be kept: %s", settings.id, exc)
    return kept


async def exchange(settings: ProviderSettings, token: Token, http: Http, now: Now = time.time) -> Token:
    """A fresh token for a refresh token. Raises `ProviderError`."""
    if token.client == "copilot":
        from bullpen.providers import copilot_login

        return await copilot_login.exchange(settings, token, http, now)
    form = {"grant_type": "refresh_token", "refresh_token": token.refresh_token}
    if token.client_id:
        form["client_id"] = token.client_id
    status, answer = await ask(
        http,
        "POST",
        token.token_url,
        settings,
        content=urlencode(form),
        kind="application/x-www-form-urlencoded",
    )
    access, error = answer.get("access_token"), answer.get("error")
    if status >= 400 or not isinstance(access, str) or not access:
        # What says nothing at all comes from somebody in between.
        says_no = (status >= 400 or bool(error)) and not refusals.is_retryable(status, [str(error)])
        raise log_in_again(settings) if says_no else unwell(settings, status)
    life = answer.get("expires_in")
    lasts = int(life) if isinstance(life, int | float) and life > 0 else 0
    rotated = answer.get("refresh_token")
    return msgspec.structs.replace(
        token,
        access_token=access,
        refresh_token=rotated if isinstance(rotated, str) and rotated else token.refresh_token,
        expires_in=lasts,
        expires_at=int(now()) + lasts if lasts else 0,
    )


async def ask(
    http: Http,
    method: str,
    url: str,
    settings: ProviderSettings,
    *,
    content: str = "",
    kind: str = "application/json",
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, object]]:
    """Status and JSON object of a login's host; what is no object counts as an empty one. Raises `ProviderError`."""
    fields = {"Accept": "application/json", **(headers or {})} | ({"Content-Type": kind} if content else {})
    try:
        with anyio.fail_after(EXCHANGE_LIMIT_S):
            response = await http.request(method, url, headers=fields, content=content or None)
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError):
        # Without the cause: it may quote the token.
        raise ProviderError(
            f"the login of {settings.name or settings.id} cannot be renewed: its host does not answer",
            title="Connection Error",
            retryable=True,
        ) from None
    try:
        answer = msgspec.json.decode(response.content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        answer = None
    return response.status_code, answer if isinstance(answer, dict) else {}


def log_in_again(settings: ProviderSettings) -> ProviderError:
    where = settings.name or settings.id
    return ProviderError(
        f"the login of {where} is no longer valid; log in again with 'bullpen login {settings.id}'",
        title="Login Expired",
        status=401,
    )


def unwell(settings: ProviderSettings, status: int) -> ProviderError:
    return ProviderError(
        f"the login of {settings.name or settings.id} cannot be renewed: its host answered {status}",
        status=status,
        retryable=True,
    )
