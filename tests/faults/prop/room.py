"""A room that rules act on: a host in a simulated world, a model and tools that the rules play, and clients.

The world is that of `tests/faults/sim`: no threads and no real time, so that what Hypothesis finds it can find again and
make smaller. The rules decide what happens; a seed that they draw decides how long the disk takes for it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
import msgspec
from tests.engine.bench import Answering, Gate, Named, Puppet, Seen, Watcher, bench_tools
from tests.faults.sim.checks import Records
from tests.faults.sim.people import read_reply
from tests.faults.sim.server import Life, Server
from tests.faults.sim.world import World

from bullpen.client.stream import Place
from bullpen.schema.api import NewWorkspace
from bullpen.schema.message import Message
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.workspace.workspace import Workspace

T = TypeVar("T")

PATIENCE_S = 600.0
"""Of virtual time: longer than anything takes that ever ends."""


@tool("linger", "Take no notice of a cancel for a while.", effects=False)
async def linger(params: Named, ctx: ToolContext) -> Outcome:
    with anyio.CancelScope(shield=True):
        await asyncio.sleep(20.0)
    return Outcome(content=f"lingered {params.name}")


class Client:
    """Somebody who watches, goes, and comes back with the last id they saw.

    `said` is the conversation as this client could show it: what it read when it came first, and what it was told since.
    """

    def __init__(self, number: int, *, deltas: bool) -> None:
        self.id = f"00000000-0000-4000-8000-{number:012d}"
        self.deltas = deltas
        self.watcher: Watcher | None = None
        self.life: Life | None = None
        self.workspace: Workspace | None = None
        self.cursor: str | None = None
        self.first = 0
        self.numbers: list[int] = []
        self.said: dict[str, str] = {}
        self.snapshots = 0

    @property
    def is_attached(self) -> bool:
        return self.watcher is not None

    async def read(self, at_most: int | None = None) -> None:
        """Take in what is there, or only its beginning, as when the connection is cut."""
        if self.watcher is None:
            return
        await self.watcher.read()
        for event in self.watcher.seen[:at_most]:
            self._take(event)
        self.watcher.seen.clear()

    def _take(self, event: Seen) -> None:
        assert event.kind != "resync", "nothing was lost, and a client has to read everything anew"
        self.cursor = event.id
        if event.seq:
            self.numbers.append(event.seq)
        payload = event.payload
        if event.kind == "message" and event.action == "deleted":
            self.said.pop(payload.id, None)
        elif event.kind == "message":
            self.said[payload.id] = payload.text
        elif event.kind == "message_delta" and payload.part == "text":
            text = self.said.get(payload.message_id, "")
            assert payload.offset == len(text), "a delta does not fit what was shown before"
            self.said[payload.message_id] = text + payload.text

    def cut(self) -> None:
        """The stream is over, for both sides."""
        if self.watcher is not None and self.life is not None and self.workspace is not None:
            self.life.host.detach(self.workspace, self.id, self.watcher.trail)
        self.watcher = None


class Room:
    """The room and everybody in it."""

    def __init__(self, seed: int, *, outlive: bool) -> None:
        self.base = Path(
            tempfile.mkdtemp(prefix="bpprop-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        )
        self.world = World(seed)
        self.outlive = outlive
        self.puppet, self.gate = Puppet(), Gate()
        self.server = Server(self.world, self.base, self.puppet)
        self.server.toolbox = {**bench_tools(self.gate), linger.name: linger}
        self.records = Records(self.server.database)
        self.clients = [Client(n, deltas=n == 1) for n in range(3)]
        self.sessions: list[str] = []
        self._steps: list[Answering] = []

    def do(self, work: Callable[[], Awaitable[T]]) -> T:
        """Let something happen; what it sets going goes on when the next thing happens."""

        async def within() -> T:
            async with asyncio.timeout(PATIENCE_S):
                return await work()

        return self.world.loop.run_until_complete(within())

    async def open(self) -> None:
        self.server.start()
        workspace = await self.workspace()
        self.sessions = [(await workspace.create_session("a talk")).id for _ in range(2)]

    async def workspace(self, client: Client | None = None) -> Workspace:
        """The workspace as this client finds it: it creates or joins it, and has a claim on it."""
        life = self.life
        await life.host.wait_ready()
        body = NewWorkspace(
            path=str(self.server.root), client_id=(client or self.clients[0]).id, outlive=self.outlive
        )
        return life.host.find((await life.host.create(body)).id)

    @property
    def life(self) -> Life:
        life = self.server.life
        assert life is not None
        return life

    @property
    def is_open(self) -> bool:
        return bool(self.life.host.all())

    async def attach(self, client: Client) -> None:
        """Open the client's stream behind the last event it saw. A new client first reads what has been said, and goes on from
        the cursor of that answer."""
        if client.is_attached:
            return
        workspace = await self.workspace(client)
        if client.cursor is None:
            await self._snapshot(client, workspace)
        client.life, client.workspace = self.life, workspace
        trail = self.life.host.attach(
            workspace, client.id, deltas=client.deltas, after=client.cursor, name=""
        )
        client.watcher = Watcher(trail)

    async def _snapshot(self, client: Client, workspace: Workspace) -> None:
        """Read both conversations over HTTP; the older cursor holds for both."""
        cursors: list[str] = []
        client.said.clear()
        client.snapshots += 1
        for session in self.sessions:
            headers, body = await self._get(f"/v1/workspaces/{workspace.id}/sessions/{session}/messages")
            cursors.append(headers["bullpen-cursor"])
            client.said |= {m.id: m.text for m in msgspec.json.decode(body, type=list[Message])}
        client.cursor = min(cursors, key=_number)
        client.first = _number(client.cursor)
        client.numbers.clear()

    async def _get(self, path: str) -> tuple[dict[str, str], bytes]:
        end = self.life.connect(0)
        end.write(f"GET {path} HTTP/1.1\r\nHost: bullpen\r\n\r\n".encode())
        status, headers, body = await read_reply(end)
        end.cut()
        assert status == 200, body
        return headers, body

    # Ends

    def crash(self) -> None:
        self._forget_life()
        self.server.crash()

    async def stop(self) -> None:
        """As on SIGTERM."""
        for client in self.clients:
            await client.read()
        await self.life.end()
        self._forget_life()

    def _forget_life(self) -> None:
        for client in self.clients:
            client.watcher = None
        while not self.puppet.asked.empty():
            self.puppet.asked.get_nowait()
        self._steps.clear()

    async def start(self) -> None:
        self.server.start()
        await self.workspace()

    def close(self) -> None:
        try:
            self.do(self._leave)
        finally:
            self.world.loop.close()
            self.records.close()
            shutil.rmtree(self.base, ignore_errors=True)
        assert not self.world.loop.unexpected

    async def _leave(self) -> None:
        if self.server.life is not None:
            await self.stop()
        self.gate.open_all()
        await self.server.settle()
        await asyncio.sleep(60.0)
        for task in asyncio.all_tasks(self.world.loop) - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)

    # The model

    def steps(self, session: int | None = None) -> list[Answering]:
        """Answers that the model is asked for and has not given, in one session or in all and their sub-agents'."""
        while not self.puppet.asked.empty():
            self._steps.append(self.puppet.asked.get_nowait())
        self._steps = [s for s in self._steps if not s.closed.is_set()]
        if session is None:
            return self._steps
        return [s for s in self._steps if s.request.session_id == self.sessions[session]]

    # What is stored

    def states(self) -> dict[str, str]:
        return dict(self.records.rows("SELECT run_id, state FROM prompts ORDER BY seq"))

    def unfinished(self, session: str) -> list[str]:
        rows = self.records.rows(
            "SELECT run_id FROM prompts WHERE session = ? AND state IN ('accepted', 'active')", session
        )
        return [run_id for (run_id,) in rows]

    def messages(self, session: str) -> list[Message]:
        rows = self.records.rows("SELECT body FROM messages WHERE session = ? ORDER BY position", session)
        return [msgspec.json.decode(body, type=Message) for (body,) in rows]


def _number(cursor: str) -> int:
    place = Place.of(cursor)
    assert place is not None
    return place.seq


def arguments(name: str, count: int) -> str:
    """What the model calls a tool with."""
    return json.dumps({"prompt": f"t{count}"} if name == "send" else {"name": f"x{count}"})


def payload(kind: Any, body: bytes) -> Any:
    return msgspec.json.decode(body, type=kind)
