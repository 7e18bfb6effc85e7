"""R-17 from both ends: the product's client and server, and a network that dies without a word.

Everything is the product's: the client's link, its HTTP library, the server. Only bytes travel through a simulated network, at
virtual times, so that the 45 s of each seed take some milliseconds.
"""

# ruff: noqa: ASYNC109 (`timeout` is what the library calls it)

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpcore2
import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.sim.agent import Agent
from tests.faults.sim.checks import DEAD_PEER_S, TRAVEL_S
from tests.faults.sim.network import ClientEnd, Cut
from tests.faults.sim.server import Server
from tests.faults.sim.test_sim import memory
from tests.faults.sim.world import World, seeded

from bullpen.client.http import LIMITS, Connection
from bullpen.client.link import Link
from bullpen.client.unix import UnixTransport
from bullpen.schema.api import NewWorkspace
from bullpen.schema.session import Session
from bullpen.system.address import UnixAddress

SEEDS = sized(20, 1_000)


class SimulatedNetwork(httpcore2.AsyncNetworkBackend):
    """Connections to the server of a simulated world."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return SimulatedStream(self._server.connect())
        except Cut as exc:
            raise httpcore2.ConnectError("nobody listens") from exc

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class SimulatedStream(httpcore2.AsyncNetworkStream):
    def __init__(self, end: ClientEnd) -> None:
        self._end = end

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            with anyio.fail_after(timeout):
                return await self._end.read()
        except TimeoutError as exc:
            raise httpcore2.ReadTimeout("the server is silent") from exc
        except Cut as exc:
            raise httpcore2.ReadError("the connection broke") from exc

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            self._end.write(buffer)
        except Cut as exc:
            raise httpcore2.WriteError("the connection broke") from exc

    async def aclose(self) -> None:
        self._end.cut()

    def get_extra_info(self, info: str) -> Any:
        return self._end.connection.lost_at is not None if info == "is_readable" else None


class Watch:
    """One client whose network dies once, and when each side came to know."""

    def __init__(self, seed: int, base: Path) -> None:
        self.world = World(seed)
        self.agent = Agent(self.world)
        self.agent.calm.set()
        self.server = Server(self.world, base, self.agent)
        self.server.toolbox = self.agent.tools()
        self.client_knew_s = 0.0
        self.server_knew_s = 0.0

    def run(self) -> None:
        try:
            with seeded(self.world):
                self.world.loop.run_until_complete(self._run())
        finally:
            self.world.loop.close()
        assert not self.world.loop.unexpected

    async def _run(self) -> None:
        life = self.server.start()
        client = "00000000-0000-4000-8000-000000000001"
        request = NewWorkspace(path=str(self.server.root), client_id=client, outlive=True)
        transport = UnixTransport("simulated", LIMITS, SimulatedNetwork(self.server))
        address = UnixAddress(Path("/simulated"))
        async with Connection(address, client_id=client, transport=transport) as connection:
            link = Link(connection, request, rng=self.world.rng)
            await link.enter()
            async with anyio.create_task_group() as tasks:
                await tasks.start(link.follow)
                await asyncio.sleep(self.world.rng.uniform(0, 60))
                await self._lose_network(link)
                await self._find_each_other(link)
                tasks.cancel_scope.cancel()
            await link.leave()
        await life.end()
        await asyncio.sleep(60)

    async def _lose_network(self, link: Link) -> None:
        """Every open connection dies without a word; new ones work."""
        dead = [c for c in self.server.lives[0].connections if c.lost_at is None]
        for connection in dead:
            connection.client.vanish()
        died_at = self.world.now
        # The server's kernel may say so first; a client that is cut off hears nothing of that.
        for connection in dead:
            connection.client.end = lambda *, cut: None  # type: ignore[method-assign]
        while link.is_up:  # noqa: ASYNC110 (time is free here)
            await asyncio.sleep(0.1)
        self.client_knew_s = self.world.now - died_at
        while any(c.lost_at is None for c in dead):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        self.server_knew_s = max(c.lost_at or 0.0 for c in dead) - died_at

    async def _find_each_other(self, link: Link) -> None:
        """The link comes back by itself and misses nothing."""
        while not link.is_up:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        session = (await link.call("POST", "/sessions", {"title": "after"})).read(Session)
        async with asyncio.timeout(30):
            while link.mirror.session(session.id) is None:
                await link.moved()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(sized(300, 3600))
def test_a_dead_network_is_known_on_both_sides(figure: Figure) -> None:
    client_s = server_s = 0.0
    with memory() as base:
        for seed in range(SEEDS):
            watch = Watch(seed, base / str(seed))
            watch.run()
            assert watch.client_knew_s <= DEAD_PEER_S + TRAVEL_S, f"seed {seed}"
            assert watch.server_knew_s <= DEAD_PEER_S + TRAVEL_S, f"seed {seed}"
            client_s, server_s = max(client_s, watch.client_knew_s), max(server_s, watch.server_knew_s)
    figure(
        "R-17",
        "SIM",
        f"{SEEDS:,} dead networks known after at most {client_s:.1f} s (client), {server_s:.1f} s (server)",
    )
