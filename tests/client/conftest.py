"""What the tests of the client share: a stand-in for the server that has bad luck on command."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.client.standin import StandIn


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def server() -> AsyncIterator[StandIn]:
    # Not tmp_path, which may be too long for a socket.
    with tempfile.TemporaryDirectory(prefix="bp") as directory:
        stand_in = StandIn(Path(directory) / "s.sock")
        await stand_in.start()
        yield stand_in
        await stand_in.stop()
