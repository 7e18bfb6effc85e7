"""Keys of providers, for a client: asked about before they are kept; and the login to GitHub Copilot.

async with attach(".") as room:
    checked = await room.keys.check("openai", key)
    if checked.verdict != "refused":
        await room.keys.keep("openai", key)
"""

from __future__ import annotations

from bullpen.client.link import Link
from bullpen.schema.api import KeyChecked, KeyToCheck, LoginCode, LoginState, ProviderKey

EVERYWHERE = 0
"""The scope of what holds in every workspace of the server's owner."""

WAIT_S = 20
ANSWER_S = 30.0
"""How long the server is asked to wait, and how long its answer may take beyond that."""


class Keys:
    """Of a `Room`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def check(self, provider: str, key: str) -> KeyChecked:
        """What the provider says to a key; it is kept nowhere. Raises `BadRequest` for a provider that takes none."""
        body = KeyToCheck(provider_id=provider, api_key=key)
        return (await self._link.call("POST", "/config/check-key", body)).read(KeyChecked)

    async def keep(self, provider: str, key: str) -> None:
        """Keep a key in the private state of the server's owner, for all workspaces."""
        body = ProviderKey(scope=EVERYWHERE, provider_id=provider, kind="string", api_key=key)
        await self._link.call("POST", "/config/provider-key", body)

    async def begin_login(self) -> LoginCode:
        """Begin a login to GitHub Copilot, or join the one under way. Raises `ProviderError`."""
        return (await self._link.call("POST", "/config/copilot-login", timeout_s=ANSWER_S)).read(LoginCode)

    async def login_end(self) -> LoginState:
        """How the login ended, as soon as it has. Raises `NotFound` when there is none."""
        path = f"/config/copilot-login?wait={WAIT_S}"
        while True:
            answer = await self._link.call("GET", path, timeout_s=WAIT_S + ANSWER_S)
            if (told := answer.read(LoginState)).state != "waiting":
                return told

    async def cancel_login(self) -> None:
        """Wait no longer for the person; also for others who do."""
        await self._link.call("DELETE", "/config/copilot-login")
