"""The product's server in a simulated world: one life after another on the same files.

Host, workspaces, engine, store, application and HTTP/1.1 are the product's. A crash takes the disk and all connections away
at once; what is left of that life then dies off without anybody noticing. A stop is what SIGTERM does.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, cast

from tests.faults.sim.network import ClientEnd, Connection, Cut
from tests.faults.sim.world import Disk, World
from uvicorn.config import Config

from bullpen.providers.base import Provider
from bullpen.server.app import build_app
from bullpen.server.http1 import Http1
from bullpen.server.link import Limits, Peer, TransportState
from bullpen.store.lock import DataLock
from bullpen.store.store import DATABASE_NAME
from bullpen.system.processes import Processes
from bullpen.system.tally import Tally
from bullpen.tools.base import Tool
from bullpen.workspace.claims import DETACH_GRACE_S
from bullpen.workspace.host import Host
from bullpen.workspace.opening import Surroundings

KEEPALIVE_S = 15.0

CONFIG = {
    "providers": {
        "sim": {
            "type": "openai-compat",
            "base_url": "http://127.0.0.1:9/v1",
            "api_key": "none",
            "models": [{"id": "m", "name": "m", "context_window": 100_000, "default_max_tokens": 100}],
        }
    },
    "models": {"large": {"model": "m", "provider": "sim"}, "small": {"model": "m", "provider": "sim"}},
}


class Life:
    """One process of the server, from its start to its end."""

    def __init__(self, server: Server) -> None:
        self.world = server.world
        self.disk = Disk(server.world)
        self.connections: list[Connection] = []
        self.stop = asyncio.Event()
        self.over_at = inf
        self._lock = DataLock(server.data)
        self._state = TransportState(Tally())
        self._state.default_headers = []
        self.host = Host(
            surroundings=Surroundings(
                clock=server.world.clock,
                processes=cast(Processes, _NoProcesses()),
                tools=lambda: server.tools(self),
                make_provider=lambda settings: server.model,
                trusted=True,
                detach_grace_s=DETACH_GRACE_S,
                database=self.disk.database(),
            ),
            data_dir=server.data,
            lock=self._lock,
            env={"HOME": str(server.home), "PATH": os.defpath},
            idle_exit_s=None,
            keepalive_s=KEEPALIVE_S,
            on_exit=self.stop.set,
        )
        self._config = Config(
            app=build_app(self.host, token=None),
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        self._config.load()
        self._limits = Limits()
        self.task = server.world.loop.create_task(self.host.serve(lambda: None, self.stop))

    @property
    def is_over(self) -> bool:
        return self.over_at < inf

    def connect(self, number: int) -> ClientEnd:
        connection = Connection(self.world, number)
        self.connections.append(connection)
        protocol = Http1(self._config, self._state, Peer(uid=os.geteuid(), unix=True), self._limits)
        connection.server.set_write_buffer_limits(high=self._limits.unsent_bytes)
        connection.server.set_protocol(protocol)
        protocol.connection_made(connection.server)
        return connection.client

    def crash(self) -> None:
        """Nothing that is not committed is left, and every peer hears the connection break."""
        self.over_at = self.world.now
        self.disk.lose()
        self._lock.release()
        for connection in self.connections:
            connection.lose(ConnectionResetError())
        self.task.cancel()
        for request in list(self._state.tasks):
            request.cancel()

    async def end(self) -> None:
        """As after SIGTERM; peers see their streams end."""
        self.stop.set()
        await asyncio.wait([self.task])
        self.over_at = self.world.now
        self._lock.release()
        for connection in self.connections:
            connection.lose(ConnectionResetError())


class _NoProcesses:
    """The world has no other processes."""

    async def warm(self) -> None:
        """There is nothing to warm up."""


class Server:
    """What clients connect to: the life that is on, if one is."""

    def __init__(self, world: World, base: Path, model: Provider) -> None:
        self.world = world
        self.model = model
        self.home = base / "home"
        self.data = base / "data"
        self.root = base / "project"
        for directory in (self.home, self.root):
            directory.mkdir(parents=True)
        (self.root / "bullpen.json").write_text(json.dumps(CONFIG))
        self.lives: list[Life] = []
        self.toolbox: Mapping[str, Tool] = {}
        self._numbers = itertools.count(1)

    def tools(self, life: Life) -> Mapping[str, Tool]:
        return self.toolbox

    @property
    def database(self) -> Path:
        return self.data / DATABASE_NAME

    @property
    def life(self) -> Life | None:
        """The life that is on."""
        return self.lives[-1] if self.lives and not self.lives[-1].is_over else None

    def start(self) -> Life:
        assert self.life is None
        self.lives.append(Life(self))
        self.world.tell("server", f"life {len(self.lives)} begins")
        return self.lives[-1]

    def crash(self) -> None:
        assert self.life is not None
        self.life.crash()
        self.world.tell("server", "crash")

    async def stop(self) -> None:
        assert self.life is not None
        self.world.tell("server", "stop")
        await self.life.end()
        self.world.tell("server", "stopped")

    def connect(self) -> ClientEnd:
        """Raises `Cut` when nobody listens."""
        if self.life is None:
            raise Cut
        return self.life.connect(next(self._numbers))

    def open_workspaces(self) -> list[Any]:
        return [] if self.life is None else self.life.host.all()

    async def settle(self) -> None:
        """Wait for what is left of lives that are over."""
        for life in self.lives:
            if life.is_over and not life.task.done():
                await asyncio.wait([life.task])
