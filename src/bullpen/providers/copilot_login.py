"""Logging in to GitHub Copilot: a code that a person enters at GitHub, a GitHub token for it, a short Copilot token for that.

The GitHub token is what is kept as the refresh token: it lives long, and buys a new Copilot token every half hour.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

import anyio
import httpx2
import msgspec

from bullpen.config.keys import Token
from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers import refusals
from bullpen.providers.copilot import EDITOR, no_subscription
from bullpen.providers.credentials import Now, ask, log_in_again, unwell
from bullpen.schema.api import LoginCode

CLIENT_ID = "Iv1.b507a08c87ecfe98"
"""The public id of the editor's plug-in: GitHub gives Copilot tokens to it alone."""

SCOPE = "read:user"
SHORTEST_INTERVAL_S = 5.0
SLOWER_S = 5.0
DEFAULT_LIFE_S = 900

ME = ProviderSettings(id="copilot", name="GitHub Copilot", type="copilot")


class DeviceCode(msgspec.Struct, frozen=True, kw_only=True):
    """What the person has to do: enter `user_code` at `verification_uri`."""

    device_code: str
    user_code: str
    verification_uri: str
    interval: float = SHORTEST_INTERVAL_S
    expires_in: float = DEFAULT_LIFE_S


class Hosts(msgspec.Struct, frozen=True):
    """Where a GitHub lives: `github.com`, the name of an enterprise's own, or a whole address that plays all parts."""

    web: str
    api: str

    @classmethod
    def of(cls, host: str = "github.com") -> Hosts:
        if "://" in host:
            return cls(host.rstrip("/"), host.rstrip("/"))
        return cls(f"https://{host}", f"https://api.{host}")

    @property
    def token_url(self) -> str:
        return f"{self.api}/copilot_internal/v2/token"


async def log_in_with_code(
    hosts: Hosts, http: httpx2.AsyncClient, show: Callable[[LoginCode], None]
) -> Token:
    """The whole way: `show` is handed what the person has to do, then they are waited for. Raises `ProviderError`."""
    code = await begin(hosts, http)
    show(
        LoginCode(
            user_code=code.user_code, verification_uri=code.verification_uri, expires_in=code.expires_in
        )
    )
    return await log_in(await wait_for_person(hosts, code, http), hosts, http)


async def begin(hosts: Hosts, http: httpx2.AsyncClient) -> DeviceCode:
    """Raises `ProviderError`."""
    form = urlencode({"client_id": CLIENT_ID, "scope": SCOPE})
    try:
        status, answer = await _post(http, f"{hosts.web}/login/device/code", form)
    except ProviderError as exc:
        raise ProviderError(f"{hosts.web} does not answer: there is no code to log in with") from exc
    try:
        return msgspec.convert(answer, DeviceCode)
    except msgspec.ValidationError:
        raise ProviderError(
            f"GitHub gave no code to log in with (it answered {status})", status=status
        ) from None


async def wait_for_person(
    hosts: Hosts,
    code: DeviceCode,
    http: httpx2.AsyncClient,
    *,
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
) -> str:
    """The GitHub token, once the code was entered. Raises `ProviderError` when it was refused or is too old."""
    form = urlencode(
        {
            "client_id": CLIENT_ID,
            "device_code": code.device_code,
            "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        }
    )
    interval, waited = max(code.interval, SHORTEST_INTERVAL_S), 0.0
    while waited < code.expires_in:
        await sleep(interval)
        waited += interval
        try:
            status, answer = await _post(http, f"{hosts.web}/login/oauth/access_token", form)
        except ProviderError:
            # The code is as good as before: a network that is away for a moment must not cost the person another one.
            continue
        token = answer.get("access_token")
        if isinstance(token, str) and token:
            return token
        match answer.get("error"):
            case "authorization_pending":
                continue
            case "slow_down":
                interval += SLOWER_S
            case "access_denied":
                raise ProviderError("the login was refused at GitHub", status=status)
            case "expired_token":
                break
            case error:
                raise ProviderError(f"GitHub does not let us log in ({error or status})", status=status)
    raise ProviderError("nobody entered the code in time; log in again for another one")


async def log_in(github_token: str, hosts: Hosts, http: httpx2.AsyncClient, now: Now = time.time) -> Token:
    """The token record for a GitHub token. Raises `ProviderError`."""
    record = Token(access_token="-", refresh_token=github_token, client="copilot", token_url=hosts.token_url)
    return await exchange(ME, record, http, now)


async def exchange(settings: ProviderSettings, token: Token, http: httpx2.AsyncClient, now: Now) -> Token:
    """A Copilot token for the GitHub token. Raises `ProviderError`."""
    headers = EDITOR | {"Authorization": f"Bearer {token.refresh_token}"}
    url = token.token_url or Hosts.of().token_url
    status, answer = await ask(http, "GET", url, settings, headers=headers)
    access, ends = answer.get("token"), answer.get("expires_at")
    # GitHub may refuse whoever asks too often as it refuses whoever has no subscription.
    is_busy = refusals.is_retryable(status, ()) or "rate limit" in refusals.message_in(answer).lower()
    if status >= 400 and not is_busy:
        raise no_subscription() if status == 403 else log_in_again(settings)
    if status != 200 or not isinstance(access, str) or not isinstance(ends, int | float):
        raise unwell(settings, status)
    endpoints = answer.get("endpoints")
    api = endpoints.get("api") if isinstance(endpoints, dict) else None
    return msgspec.structs.replace(
        token,
        access_token=access,
        expires_at=int(ends),
        expires_in=max(int(ends - now()), 1),
        endpoint=api if isinstance(api, str) else token.endpoint,
    )


async def _post(http: httpx2.AsyncClient, url: str, form: str) -> tuple[int, dict[str, object]]:
    return await ask(
        http, "POST", url, ME, content=form, kind="application/x-www-form-urlencoded", headers=EDITOR
    )
