"""What the tests of the system room share: commands that are started for real, on both event loops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bullpen.system.processes import Processes


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    async with Processes() as processes:
        yield processes
