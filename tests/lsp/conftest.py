"""Language servers to talk to: one that does as it is told, and a workspace's worth of `LspServers` around it."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.tools.conftest import Bench

from bullpen.config.shape import LspServer
from bullpen.lsp import plan
from bullpen.lsp.checking import Patience
from bullpen.lsp.selection import Following
from bullpen.lsp.servers import LspServers, Waits
from bullpen.schema.agent import LspInfo
from bullpen.schema.events import LspEvent
from bullpen.system.jobs import Jobs
from bullpen.system.processes import Processes
from bullpen.tools.base import Outcome

HERE = Path(__file__).parent
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}

PATIENT = Waits(
    before=Patience(30, 0.2), change=Patience(30, 0.2), view=Patience(30, 0.2), ask=Patience(30, 0.2)
)
"""Long where an answer is sure to come, short where silence is the answer."""

HASTY = Waits(
    before=Patience(0.2, 0.2), change=Patience(0.2, 0.2), view=Patience(0.2, 0.2), ask=Patience(0.2, 0.2)
)
"""For servers that never answer."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


class Room:
    """A workspace, its language servers, and what they announced."""

    def __init__(
        self, root: Path, processes: Processes, tasks: Any, env: dict[str, str], waits: Waits
    ) -> None:
        self.root = root
        self.processes = processes
        self.events: list[LspEvent] = []
        self._heard = anyio.Event()
        self.tasks = tasks
        self.servers = LspServers(
            root=root,
            env=env,
            announce=self._hear,
            processes=processes,
            waits=waits,
            restart_delay_s=0,
            again_s=0,
        )

    def follow(
        self, *, auto: bool = False, trusted: bool = False, idle_s: float = 0, **configured: LspServer
    ) -> None:
        plans = {name: plan.configured(name, entry, trusted=trusted) for name, entry in configured.items()}
        self.servers.follow(Following(plans=plans, auto=auto, trusted=trusted, idle_s=idle_s), self.tasks)

    def write(self, name: str, text: str) -> Path:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
        return file

    async def change(self, name: str, text: str) -> str:
        """Change a file as a tool does, and give back what is told of it."""
        before = await self.servers.before_change(self.root / name)
        return await self.servers.after_change(self.write(name, text), before)

    async def until(self, condition: Callable[[dict[str, LspInfo]], bool]) -> dict[str, LspInfo]:
        """Wait until the states are as wished."""
        while not condition(self.servers.states()):
            self._heard = anyio.Event()
            await self._heard.wait()
        return self.servers.states()

    async def is_in(self, state: int, name: str = "s") -> LspInfo:
        return (await self.until(lambda states: name in states and states[name].state == state))[name]

    def _hear(self, event: LspEvent) -> None:
        self.events.append(event)
        self._heard.set()

    def states(self, name: str = "s") -> list[int]:
        return [e.state for e in self.events if e.name == name and e.type == "state_changed"]


@asynccontextmanager
async def opened(root: Path, env: dict[str, str], waits: Waits) -> AsyncIterator[Room]:
    async with Processes() as processes, anyio.create_task_group() as tasks:
        room = Room(root, processes, tasks, env, waits)
        yield room
        await room.servers.close()
        tasks.cancel_scope.cancel()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
async def room(root: Path) -> AsyncIterator[Room]:
    async with opened(root, dict(ENV), PATIENT) as room:
        yield room


@pytest.fixture
async def hasty(root: Path) -> AsyncIterator[Room]:
    async with opened(root, dict(ENV), HASTY) as room:
        yield room


class Script:
    """Configures the scripted server and reads what it heard. It can be asked, unless told otherwise: that is quicker."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def __call__(
        self, *, options: dict[str, Any] | None = None, timeout: float = 30, **words: Any
    ) -> LspServer:
        told = self._log.with_name(f"words-{uuid.uuid4().hex}.json")
        told.write_text(json.dumps({"log": str(self._log), "pull": True, **words}))
        return LspServer(
            command=sys.executable,
            args=("-S", str(HERE / "scripted.py"), str(told)),
            filetypes=("txt",),
            options=options or {},
            timeout=timeout,
        )

    def heard(self, method: str | None = None) -> list[dict[str, Any]]:
        """Messages by their method; without one, the answers."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [message for line in lines if (message := json.loads(line)).get("method") == method]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path / "heard.jsonl")


class Desk:
    """The tools of an agent in a workspace with real language servers; files lie side by side, so that one server does."""

    def __init__(self, room: Room, bench: Bench) -> None:
        self.room = room
        self.root = room.root
        self.write = room.write
        self.bench = bench

    async def call(self, tool: str, **arguments: Any) -> Outcome:
        return await self.bench.call(tool, **arguments)


REAL = Waits(
    before=Patience(20, 2, 1),
    change=Patience(20, 2, 1),
    view=Patience(0.3, 0.3),
    ask=Patience(30, 2),
    start_s=50,
)
"""Machines that run tests are slow."""


@asynccontextmanager
async def desk_in(root: Path, path: str) -> AsyncIterator[Desk]:
    env = {"PATH": path, "HOME": str(root.parent)}
    async with opened(root, env, REAL) as room:
        bench = Bench(room.root, Jobs(env, room.processes), room.processes)
        bench.lsp = room.servers
        room.follow(auto=True)
        yield Desk(room, bench)


@pytest.fixture(autouse=True)
def _fresh_person(request: pytest.FixtureRequest) -> None:
    """Each test has a person and a session of its own, also at a desk that they share."""
    if "desk" in request.fixturenames:
        bench = request.getfixturevalue("desk").bench
        bench.asked.clear()
        bench.files.reads.clear()
        bench.files.changes.clear()
        bench.on_permit = lambda asked: None
