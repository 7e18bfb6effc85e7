"""A fetcher in a small internet."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any

import pytest
from tests.internet import World, authority, trust, world

from bullpen.net.exchange import Limits, Moved, Reply, Request
from bullpen.net.fetching import Fetcher
from bullpen.net.urls import parse

__all__ = ["authority", "trust", "world"]


class Web:
    """A fetcher in that world, and what it brought home."""

    def __init__(self, world: World, trust: ssl.SSLContext) -> None:
        self.world = world
        self.trust = trust

    async def get(
        self,
        url: str,
        *,
        limits: Limits | None = None,
        moved: Moved | None = None,
        allowed: Sequence[tuple[str, int]] = (),
        **request: Any,
    ) -> tuple[Reply, bytes]:
        taken = bytearray()

        async def take(piece: bytes) -> None:
            taken.extend(piece)

        fetcher = Fetcher(self.world.guard(*allowed), trust=self.trust)
        reply = await fetcher.fetch(Request(url=parse(url), **request), take, limits=limits, moved=moved)
        return reply, bytes(taken)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def web(world: World, trust: ssl.SSLContext) -> Web:
    return Web(world, trust)
