"""What the store's tests share: a real database in a directory of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bullpen.store import sessions
from bullpen.store.store import Store, open_store
from bullpen.system.clock import SystemClock

WORKSPACE = "w1"
SESSION = "s1"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store with one open workspace and one session in it."""
    async with open_store(tmp_path, clock=SystemClock(), attached=lambda workspace, session: 0) as opened:
        await opened.open_feed(WORKSPACE, str(tmp_path))
        await opened.write(lambda tx: sessions.create(tx, WORKSPACE, SESSION, "Named"))
        yield opened
