"""What the asks' tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.engine.bench import Bench, open_bench


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path / "data") as opened:
        await opened.session()
        await opened.watcher.read()
        yield opened
