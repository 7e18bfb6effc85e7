"""Whether a provider's host takes a key, asked before the key is kept. The key goes to that host and nowhere else."""

from __future__ import annotations

import msgspec

from bullpen.config.expand import is_reference
from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers import discover
from bullpen.schema.api import KeyChecked

LIMIT_S = 5.0
"""Somebody sits there and waits."""

PREFIXES = {"bedrock": "ABSK", "bedrock-europe": "ABSK", "vercel": "vck_", "alibaba-singapore": "sk-"}
"""What keys begin with where the host cannot be asked about them."""

UNTESTED = frozenset({"minimax", "minimax-china", *PREFIXES})


async def check_key(settings: ProviderSettings, key: str, http: discover.Http) -> KeyChecked:
    """`settings` say how the provider is reached; whatever key stands there is not used."""
    name = settings.name or settings.id
    prefix = PREFIXES.get(settings.id, "")
    if is_reference(key):
        return KeyChecked(verdict="unknown", message="it is looked up when it is needed")
    if not (key.isascii() and key.isprintable()) or " " in key:
        return KeyChecked(verdict="refused", message="that is no key: one word without spaces is wanted")
    if not key.startswith(prefix):
        return KeyChecked(verdict="refused", message=f"keys of {name} begin with {prefix}")
    if settings.id in UNTESTED or not settings.base_url:
        return KeyChecked(verdict="unknown", message=f"{name} cannot be asked about keys")
    trying = msgspec.structs.replace(settings, api_key=key, token=None, key_source=None)
    try:
        await discover.test_key(trying, http, limit_s=LIMIT_S)
    except ProviderError as exc:
        if exc.status in (401, 403):
            return KeyChecked(verdict="refused", message=f"{name} refused the key ({exc.status})")
        return KeyChecked(verdict="unknown", message=exc.details)
    return KeyChecked(verdict="good", message="it works")
