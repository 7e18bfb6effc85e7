"""Logging in to a server elsewhere: authorization code with PKCE, by the library, with a person and their browser.

The library finds out where to log in, registers us there unless a client is configured, and exchanges the code. What is
found on the way comes from a stranger: every address has to be encrypted or on this machine, and this machine is only
asked when the server itself runs on it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import anyio

from bullpen import __version__
from bullpen.config.shape import McpServer
from bullpen.errors import BadRequest, BullpenError, ToolServerFailed
from bullpen.mcp.callback import Callback, listening
from bullpen.mcp.connection import load_library, reason_of
from bullpen.mcp.logins import Login, can_log_in, is_private, is_this_machine
from bullpen.mcp.results import shorten

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

LOGIN_S = 600.0
"""How long a person may take."""

REASON_BYTES = 500


async def log_in(name: str, server: McpServer, show: Callable[[str], None]) -> Login:
    """Have a person log in; `show` is given the address for their browser.

    Raises `BadRequest` when there is nothing to log in to, `ToolServerFailed` when it did not work.
    """
    if not can_log_in(server):
        why = "runs on this machine" if server.type == "stdio" else "has an Authorization header configured"
        raise BadRequest(f"the MCP server {name!r} needs no login: it {why}")
    if not is_private(server.url):
        raise BadRequest(
            f"the MCP server {name!r} is not reached over HTTPS, so a login would be open to all"
        )
    await load_library()
    # It logs whole errors, with what was secret in them. All of it is said here, too.
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)
    try:
        with anyio.fail_after(LOGIN_S):
            async with listening(server.oauth_callback_port) as callback:
                return await _log_in(name, server, callback, show)
    except TimeoutError:
        raise ToolServerFailed(f"nobody logged in within {LOGIN_S / 60:g} minutes") from None
    except BullpenError:
        raise
    except Exception as exc:
        # The library fails in many ways, and strangers' answers in more.
        raise ToolServerFailed(f"the login failed: {shorten(str(reason_of(exc)), REASON_BYTES)}") from exc


async def _log_in(name: str, server: McpServer, callback: Callback, show: Callable[[str], None]) -> Login:
    from bullpen.mcp.http import client

    provider = _provider(server, callback, show)
    headers = {n: v for n, v in server.headers.items() if v}
    async with client(headers, auth=provider, ask=_only_private(server.url)) as http:
        request: dict[str, Any] = {"method": "GET", "headers": {"Accept": "text/event-stream"}}
        if server.type == "http":
            accept = {"Accept": "application/json, text/event-stream"}
            request = {"method": "POST", "headers": accept, "json": _GREETING}
        async with http.stream(url=server.url, **request) as response:
            status = response.status_code
    context = provider.context
    if context.current_tokens is None or context.client_info is None:
        raise BadRequest(f"the MCP server {name!r} does not ask for a login (it answered {status})")
    if status in (401, 403):
        raise ToolServerFailed(f"the server refuses the login that it was given (HTTP status {status})")
    return _kept(provider)


def _provider(server: McpServer, callback: Callback, show: Callable[[str], None]) -> OAuthClientProvider:
    from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    async def to_browser(url: str) -> None:
        if not is_private(url):
            raise ToolServerFailed("the server wants the login at an address that is not encrypted")
        callback.expect(parse_qs(urlsplit(url).query).get("state", [""])[0])
        show(url)

    async def from_browser() -> AuthorizationCodeResult:
        answer = await callback.answer()
        return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.issuer)

    return OAuthClientProvider(
        server_url=server.url,
        client_metadata=OAuthClientMetadata.model_validate(
            {
                "client_name": "Bullpen",
                "software_version": __version__,
                "redirect_uris": [callback.url],
                "token_endpoint_auth_method": "none",
            }
        ),
        storage=_Registered(server, callback.url),
        redirect_handler=to_browser,
        callback_handler=from_browser,
    )


def _only_private(server_url: str) -> Callable[[httpx2.Request], Any]:
    """A server could else send us to ask whatever stands in our network."""
    is_here = is_this_machine(urlsplit(server_url).hostname or "")

    async def check(request: httpx2.Request) -> None:
        if not is_private(str(request.url)) or (is_this_machine(request.url.host) and not is_here):
            raise ToolServerFailed(f"the server sends the login to {request.url.host}, which was not asked")

    return check


def _kept(provider: OAuthClientProvider) -> Login:
    context = provider.context
    token, registered, found = context.current_tokens, context.client_info, context.oauth_metadata
    assert token is not None
    assert registered is not None
    lasts = token.expires_in or 0
    token_url = str(found.token_endpoint) if found else provider._get_token_endpoint()
    return Login(
        access_token=token.access_token,
        refresh_token=token.refresh_token or "",
        expires_in=lasts,
        expires_at=int(time.time()) + lasts if lasts else 0,
        token_url=token_url,
        client_id=registered.client_id,
        client_secret=registered.client_secret or "",
        auth_method=registered.token_endpoint_auth_method or "",
        resource=context.get_resource_url() if context.protected_resource_metadata else "",
        revocation_url=str(found.revocation_endpoint) if found and found.revocation_endpoint else "",
    )


class _Registered:
    """What the library is told about us, and for the length of one login keeps here."""

    def __init__(self, server: McpServer, redirect_url: str) -> None:
        self._client: OAuthClientInformationFull | None = None
        if server.oauth_client_id:
            from mcp.shared.auth import OAuthClientInformationFull

            method = "client_secret_post" if server.oauth_client_secret else "none"
            self._client = OAuthClientInformationFull.model_validate(
                {
                    "client_id": server.oauth_client_id,
                    "client_secret": server.oauth_client_secret,
                    "redirect_uris": [redirect_url],
                    "token_endpoint_auth_method": method,
                }
            )

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """They are taken from the library when all went well."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


_GREETING = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bullpen", "version": __version__},
    },
}
"""A request that every server answers, or refuses for want of a login."""
