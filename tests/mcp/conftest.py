"""Servers to talk to, and a workspace's worth of `McpServers` that keeps what it announced."""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio.abc import TaskGroup

from bullpen.config.shape import McpServer
from bullpen.mcp.logins import LoginBook
from bullpen.mcp.pins import PinBook
from bullpen.mcp.servers import McpServers
from bullpen.schema.agent import McpInfo
from bullpen.schema.events import McpEvent
from bullpen.tools.base import NOTHING, Outcome, PermissionDenied, Reach

HERE = Path(__file__).parent
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GREETING": "hello"}

PROBE = McpServer(command=sys.executable, args=(str(HERE / "server.py"),), timeout=30)
"""A server made with the real library."""

SLEEPER = McpServer(command="sleep", args=("600",), timeout=30)
"""A server that never answers."""


def raw(behaviour: str, *args: str, **config: Any) -> McpServer:
    """A small server that can misbehave; see raw.py."""
    command = ("-S", str(HERE / "raw.py"), behaviour, *args)
    return McpServer(**{"command": sys.executable, "args": command, "timeout": 30, **config})


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


class Call:
    """Stands for the engine's context of one tool call."""

    session_id, call_id, skill_dirs = "s", "c", ()
    limits: Any = None
    files: Any = None
    jobs: Any = None

    def __init__(self, root: Path, *, allowed: bool = True, supports_images: bool = True) -> None:
        self.root = root
        self.allowed = allowed
        self.supports_images = supports_images
        self.asked: list[tuple[str, Any, Path]] = []

    async def permit(
        self, action: str, *, description: str, params: Any, path: Path, reach: Reach = NOTHING
    ) -> None:
        self.asked.append((action, params, path))
        if not self.allowed:
            raise PermissionDenied


class Room:
    """The servers of a workspace, with what they announced."""

    def __init__(self, root: Path, tasks: TaskGroup, **options: Any) -> None:
        self.root = root
        self.tasks = tasks
        self.events: list[McpEvent] = []
        self._more = anyio.Event()
        self.state_dir = root / "state"
        options = {
            "pins": PinBook(self.state_dir / "mcp-pins.json"),
            "logins": LoginBook(self.state_dir / "mcp-logins.json"),
            "restart_delay_s": 0,
            **options,
        }
        self.servers = McpServers(root=root, env=ENV, announce=self._hear, **options)

    def _hear(self, event: McpEvent) -> None:
        self.events.append(event)
        self._more.set()
        self._more = anyio.Event()

    async def configure(self, **servers: McpServer) -> None:
        await self.servers.reconcile(servers, {}, self.tasks)

    async def started(self, **servers: McpServer) -> None:
        await self.configure(**servers)
        await self.servers.settled()

    async def until(self, condition: Callable[[], Any]) -> None:
        """Until it holds after something was announced."""
        while not condition():
            await self._more.wait()

    async def call(self, name: str, call: Call | None = None, /, **arguments: Any) -> Outcome:
        tool = self.servers.tools()[name]
        return await tool.run(arguments, call or Call(self.root))  # type: ignore[arg-type]

    async def run(self, name: str, call: Call | None = None, /, **arguments: Any) -> Outcome:
        """A tool of ours, whose arguments have a type."""
        tool = self.servers.tools()[name]
        params = msgspec.convert(arguments, tool.params)
        return await tool.run(params, call or Call(self.root))  # type: ignore[arg-type]

    def state(self, name: str) -> McpInfo:
        return self.servers.states()[name]


@asynccontextmanager
async def open_room(root: Path, **options: Any) -> AsyncIterator[Room]:
    async with anyio.create_task_group() as tasks:
        room = Room(root, tasks, **options)
        try:
            yield room
        finally:
            await room.servers.close()


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    async with open_room(tmp_path) as room:
        yield room


@pytest.fixture(scope="module")
async def probe(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Room]:
    """A room with the probe in it, for tests that leave both as they were: a real server takes seconds to start."""
    async with open_room(tmp_path_factory.mktemp("probe")) as room:
        await room.started(probe=msgspec.structs.replace(PROBE, env={"OWN": "mine"}))
        yield room


async def appears(path: Path) -> None:
    """Files made by other processes tell nobody."""
    for _ in itertools.count():
        if path.exists():
            return
        await anyio.sleep(0.01)


def is_running(pid: int) -> bool:
    """A zombie that nobody collects does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
