"""HTTP to servers elsewhere: with a login if there is one, renewed in time, and with answers of bounded size.

A login is renewed by one process at a time, and written down before it is used: a refresh token may be good only once.
Loads a library, so it is imported when a server is first reached.
"""

from __future__ import annotations

import base64
import logging
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

import anyio
import anyio.to_thread
import httpx2
import msgspec

from bullpen.config import tokens
from bullpen.errors import ConfigError, ToolServerFailed
from bullpen.mcp.logins import Login, LoginBook, is_private

REQUEST_S = 30.0

SILENCE_S = 300.0
"""How long an open answer may be silent."""

MAX_BODY_BYTES = 16 * 1024 * 1024
"""One answer, or one event of a stream. A server that sends more is cut off before it fills the memory."""

LOCK_LIMIT_S = 45.0
"""An exchange takes a second; whoever holds the lock longer than this hangs."""

POLL_S = 0.05

Look = Callable[[httpx2.Response], Awaitable[None]]

log = logging.getLogger(__name__)


@cache
def trusted() -> ssl.SSLContext:
    """The certificates that the system trusts, which takes up to a quarter of a second to read."""
    return httpx2.create_ssl_context()


def client(
    headers: Mapping[str, str],
    *,
    auth: httpx2.Auth | None = None,
    look: Look | None = None,
    ask: Callable[[httpx2.Request], Awaitable[None]] | None = None,
    cut: Callable[[str], None] = lambda _: None,
) -> httpx2.AsyncClient:
    """`ask` sees every request before it is sent, `look` every answer before it is read; `cut` is told why an answer
    was not read to its end, which libraries in between may keep to themselves."""

    async def bound(response: httpx2.Response) -> None:
        _bound(response, cut)

    return httpx2.AsyncClient(
        # What is packed can unfold to any size.
        headers={"Accept-Encoding": "identity", **headers},
        timeout=httpx2.Timeout(REQUEST_S, read=SILENCE_S),
        auth=auth,
        verify=trusted(),
        event_hooks={"request": [ask] if ask else [], "response": [bound, *([look] if look else [])]},
    )


def _bound(response: httpx2.Response, cut: Callable[[str], None]) -> None:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        cut("packed its answer, although it was asked not to")
        raise httpx2.DecodingError("packed", request=response.request)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "text/event-stream":
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, cut)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, cut: Callable[[str], None]) -> None:
        self._inner = inner
        self._cut = cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_BODY_BYTES
        async for piece in self._inner:
            left -= len(piece)
            if left < 0:
                self._cut(f"sent an answer of more than {MAX_BODY_BYTES} bytes")
                raise httpx2.ReadError("too long")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class Bearer(httpx2.Auth):
    """Shows the login of an address, if there is one. Without one a request goes as it is."""

    def __init__(self, book: LoginBook, key: str, now: Callable[[], float] = time.time) -> None:
        self._book = book
        self._key = key
        self._now = now

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        login = await anyio.to_thread.run_sync(self._book.read, self._key)
        if login is not None and login.is_stale(self._now()):
            login = await self._renewed(login, refused=False)
        if login is None:
            yield request
            return
        _show(request, login)
        response = yield request
        if response.status_code == 401 and (fresh := await self._renewed(login, refused=True)):
            _show(request, fresh)
            yield request

    async def _renewed(self, old: Login, *, refused: bool) -> Login | None:
        """A login that is newer than `old`; without one `old` itself while it is good, which it is not once it was
        `refused`. None when somebody has to log in again. Raises `ToolServerFailed`."""
        with tokens.lock_file(self._book.file, self._key[:16]) as descriptor:
            with anyio.move_on_after(LOCK_LIMIT_S) as waiting:
                while not tokens.try_lock(descriptor):
                    await anyio.sleep(POLL_S)
            latest = await anyio.to_thread.run_sync(self._book.read, self._key)
            if latest is None:
                return None
            is_newer = latest.access_token != old.access_token
            if is_newer and not latest.is_stale(self._now()):
                return latest
            is_good = not latest.has_ended(self._now()) and (is_newer or not refused)
            try:
                if waiting.cancelled_caught:
                    raise ToolServerFailed("another process is busy renewing the login")
                fresh = await self._exchanged(latest)
            except ToolServerFailed as exc:
                if not is_good:
                    raise
                log.warning("a login to an MCP server is used as it is: %s", exc)
                fresh = None
            return fresh or (latest if is_good else None)

    async def _exchanged(self, login: Login) -> Login | None:
        """The login on disk after it was renewed; None when its host refuses, or it cannot be."""
        if not login.can_be_renewed:
            return None
        # It is finished and written down even if nobody wants it any more.
        with anyio.CancelScope(shield=True):
            fresh = await exchange(login, self._now)
            if fresh is not None:
                try:
                    fresh = await anyio.to_thread.run_sync(self._book.replace, self._key, login, fresh)
                except (OSError, ConfigError) as exc:
                    log.warning("a renewed login to an MCP server could not be kept: %s", exc)
        return fresh


def _show(request: httpx2.Request, login: Login) -> None:
    request.headers["Authorization"] = f"Bearer {login.access_token}"


async def exchange(login: Login, now: Callable[[], float] = time.time) -> Login | None:
    """A fresh login for a refresh token; None when the host says no. Raises `ToolServerFailed` when it does not answer."""
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token}
    if login.resource:
        form["resource"] = login.resource
    status, answer = await _post(login.token_url, login, form)
    access = answer.get("access_token")
    if status >= 500 or status == 429:
        raise ToolServerFailed(f"the login cannot be renewed: its host answered {status}")
    if status >= 300 or not isinstance(access, str) or not access:
        return None
    life = answer.get("expires_in")
    lasts = int(life) if isinstance(life, int | float) and life > 0 else 0
    rotated = answer.get("refresh_token")
    return msgspec.structs.replace(
        login,
        access_token=access,
        refresh_token=rotated if isinstance(rotated, str) and rotated else login.refresh_token,
        expires_in=lasts,
        expires_at=int(now()) + lasts if lasts else 0,
    )


async def revoke(login: Login) -> None:
    """Tell the host that the login is over. Raises `ToolServerFailed` when it does not answer."""
    if login.revocation_url:
        # Servers made with the official library miss the secret also where there is none.
        form = {"token": login.refresh_token or login.access_token, "client_secret": login.client_secret}
        await _post(login.revocation_url, login, form)


async def _post(url: str, login: Login, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """Status and JSON object of a login's host; what is no object counts as an empty one."""
    if not is_private(url):
        raise ToolServerFailed("the login's host is not reached over HTTPS")
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    form = {**form, "client_id": login.client_id}
    if login.auth_method == "client_secret_post":
        form["client_secret"] = login.client_secret
    elif login.auth_method == "client_secret_basic":
        pair = f"{quote(login.client_id, safe='')}:{quote(login.client_secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    try:
        async with client(headers) as http:
            with anyio.fail_after(REQUEST_S):
                response = await http.post(url, content=urlencode(form))
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError):
        # Without the cause: it may quote the token.
        raise ToolServerFailed("the login's host does not answer") from None
    try:
        answer = msgspec.json.decode(response.content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        answer = None
    return response.status_code, answer if isinstance(answer, dict) else {}
