"""A server behind a login, with its own authorization server: registration, PKCE, rotating refresh tokens, revocation.

The library's routes do the protocol; what is here is who may have what, in memory, and a person who clicks "allow".
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import AsyncIterator
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from tests.mcp.elsewhere import Liar, serving, tool

from bullpen.config.shape import McpServer

SCOPES = ["notes"]


class Gatehouse:
    """`lasts_s` is how long a token is good for."""

    def __init__(self) -> None:
        self.lasts_s = 3600
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.renewals = 0
        self.url = ""

    # What the library asks

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            scopes=params.scopes or SCOPES,
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client.client_id, authorization_code.resource)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        """A refresh token is good once."""
        self.renewals += 1
        del self.refresh[refresh_token.token]
        return self._issue(client.client_id, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def verify_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.clear()
        self.refresh.clear()

    def _issue(self, client_id: str, resource: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        ends = int(time.time()) + self.lasts_s
        self.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=SCOPES, expires_at=max(ends, 0), resource=resource
        )
        self.refresh[refresh] = RefreshToken(
            token=refresh, client_id=client_id, scopes=SCOPES, resource=resource
        )
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=self.lasts_s, scope=" ".join(SCOPES)
        )

    # What a test does

    def forget_access(self) -> None:
        """As if the host had ended all tokens before their time."""
        self.access.clear()

    async def allow(self, url: str) -> int:
        """The person's browser: log in, allow, and follow the way back. Gives the status of the last page."""
        async with httpx.AsyncClient(trust_env=False, verify=False) as browser:
            page = await browser.get(url)
            assert page.status_code == 302, page.text
            return (await browser.get(page.headers["location"])).status_code

    @contextlib.asynccontextmanager
    async def reached(self, **config: Any) -> AsyncIterator[McpServer]:
        sock = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        settings = AuthSettings(
            issuer_url=AnyHttpUrl(self.url),
            resource_server_url=AnyHttpUrl(f"{self.url}/mcp"),
            validate_token_resource=True,
            required_scopes=SCOPES,
            client_registration_options=ClientRegistrationOptions(
                enabled=True, valid_scopes=SCOPES, default_scopes=SCOPES
            ),
            revocation_options=RevocationOptions(enabled=True),
        )
        app = Liar(tool("read", "Read a note.")).server.streamable_http_app(
            json_response=True,
            auth=settings,
            token_verifier=self,
            auth_server_provider=cast("OAuthAuthorizationServerProvider[Any, Any, Any]", self),
        )
        async with serving(app, sock):
            yield McpServer(type="http", url=f"{self.url}/mcp", oauth=True, **config)


def query(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
