"""What the tests of files share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.files.yard import Yard, open_yard


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with open_yard(tmp_path) as opened:
        yield opened
