"""What the tests of the client share: a stand-in for the server that has bad luck on command."""

import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.client.standin import StandIn

from bullpen.client.locate import find_address
from bullpen.client.process import server_pid
from bullpen.system.address import UnixAddress


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


HASTY: dict[str, Any] = {"providers": {"demo": {"provider_options": {"pace_ms": 0}}}}
"""The guided tour at the pace of a machine, where only its words matter."""


class Home:
    """A home of its own, with everything that a server in it needs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.project = directory / "project"
        self.project.mkdir()
        self.configure(HASTY)
        self.env = {"HOME": str(directory), "TMPDIR": str(directory), "PATH": os.environ["PATH"]}
        # A machine that runs the whole suite at once is slow to start anything.
        self.env |= {"BULLPEN_SERVER_READY_TIMEOUT": "40s", "BULLPEN_SERVER_IDLE_TIMEOUT": "30"}
        address = find_address(None, self.env)
        assert isinstance(address, UnixAddress)
        self.address = address

    def configure(self, config: dict[str, Any]) -> None:
        directory = self.directory / ".config" / "bullpen"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "bullpen.json").write_text(json.dumps(config))

    def pid(self) -> int | None:
        return server_pid(self.address)

    async def until_gone(self) -> None:
        with anyio.fail_after(20):
            while self.pid() is not None:  # noqa: ASYNC110 (another process)
                await anyio.sleep(0.05)


@pytest.fixture
async def home() -> AsyncIterator[Home]:
    with tempfile.TemporaryDirectory(prefix="bp", ignore_cleanup_errors=True) as directory:
        found = Home(Path(directory))
        yield found
        if pid := found.pid():
            os.kill(pid, signal.SIGTERM)
            await found.until_gone()
