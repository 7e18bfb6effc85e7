"""Keys of providers, for a client: asked about before they are kept.

async with attach(".") as room:
    checked = await room.keys.check("openai", key)
    if checked.verdict != "refused":
        await room.keys.keep("openai", key)
"""

from __future__ import annotations

from bullpen.client.link import Link
from bullpen.schema.api import KeyChecked, KeyToCheck, ProviderKey

EVERYWHERE = 0
"""The scope of what holds in every workspace of the server's owner."""


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
