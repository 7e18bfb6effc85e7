"""A server when none answers: found, started once however many clients want one, replaced when it leaves.

Holds for unix sockets alone. A server at a TCP address is somebody's decision and is used as it is.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

import bullpen
from bullpen.client.http import Connection
from bullpen.client.process import (
    last_words,
    notes_directory,
    server_pid,
    start_server,
    was_started_by_a_client,
)
from bullpen.errors import BullpenError, ServerUnreachable
from bullpen.schema.agent import VersionInfo
from bullpen.schema.api import Control
from bullpen.system.address import UnixAddress
from bullpen.system.files import private

PROBE_S = 0.2
PAUSE_S = 0.1
READY_TIMEOUT_S = 10.0
"""Starting takes a second; a slow disk with a database to check may need the rest."""

GONE_TIMEOUT_S = 10.0
"""A server that leaves may spend 5 s on its last turns."""


OWNER_FIRST_S = 3.0
"""A server that a person started is theirs to start again; only then does a waiting prompt start one."""


class Starter:
    """Brings the server of a socket up, and up again."""

    def __init__(self, address: UnixAddress, env: Mapping[str, str]) -> None:
        self._address = address
        self._env = env
        self._is_ours = False

    async def ensure(self) -> None:
        """Start a server unless one answers. Raises `ServerUnreachable` when none comes up."""
        await ensure_server(self._address, self._env)
        self._is_ours = await anyio.to_thread.run_sync(was_started_by_a_client, self._address, self._env)

    async def replace(self) -> None:
        """Start a successor of a server that is leaving."""
        await replace_server(self._address, self._env)
        self._is_ours = True

    async def revive(self, *, wanted: bool) -> None:
        """Start a server that died. One that was stopped took its socket away and stays down until it is `wanted`."""
        died = self._is_ours and self._address.path.exists()
        if not died and not wanted:
            return
        if not self._is_ours and await self._came_back():
            return
        await self.ensure()

    async def _came_back(self) -> bool:
        with anyio.move_on_after(OWNER_FIRST_S):
            while await anyio.to_thread.run_sync(server_pid, self._address) is None:
                await anyio.sleep(0.1)
            return True
        return False


async def ensure_server(address: UnixAddress, env: Mapping[str, str] = os.environ) -> None:
    """Make sure that a server answers at `address`, starting one if need be.

    Raises `ServerUnreachable` with the server's last words when none comes up in time.
    """
    if await _listener(address):
        async with Connection(address) as server:
            if not await _wait_ready(server, _ready_timeout_s(env)):
                raise ServerUnreachable(
                    f"something listens at {address} but does not answer as a server does"
                )
            if not await _gave_way(server):
                return
        await _wait_gone(address)
    await _start(address, env)


async def replace_server(address: UnixAddress, env: Mapping[str, str] = os.environ) -> None:
    """Start a successor of a server that has said it is leaving."""
    await _wait_gone(address)
    await _start(address, env)


async def _start(address: UnixAddress, env: Mapping[str, str]) -> None:
    limit_s = _ready_timeout_s(env)
    async with _start_lock(address, env, limit_s), Connection(address) as server:
        if await server.is_answering(PROBE_S):
            return
        process = await anyio.to_thread.run_sync(start_server, address, env)
        if await _wait_ready(server, limit_s, lambda: process.poll() is None):
            return
    why = last_words(address, env)
    log = notes_directory(address, env) / "stderr.log"
    if process.poll() is not None:
        raise ServerUnreachable(
            f"the server could not start: {why or f'exit status {process.poll()}'} (log: {log})"
        )
    raise ServerUnreachable(f"the server did not answer within {limit_s:g} s; what it said is in {log}")


async def _wait_ready(server: Connection, limit_s: float, lives: Callable[[], bool] = lambda: True) -> bool:
    ends = time.monotonic() + limit_s
    while True:
        if await server.is_answering(PROBE_S):
            return True
        if time.monotonic() > ends or not lives():
            # One that lost a race for the socket has ended by now, and the winner answers.
            return await server.is_answering(PROBE_S)
        await anyio.sleep(PAUSE_S)


async def _wait_gone(address: UnixAddress) -> None:
    with anyio.move_on_after(GONE_TIMEOUT_S):
        while await _listener(address):
            await anyio.sleep(PAUSE_S)


async def _listener(address: UnixAddress) -> int | None:
    return await anyio.to_thread.run_sync(server_pid, address)


async def _gave_way(server: Connection) -> bool:
    """Ask a server older than ours to stop if nobody uses it; whether it did. Any other server is used as it is."""
    try:
        theirs = (await server.call("GET", "/version", timeout_s=5)).read(VersionInfo)
        if not is_older(theirs.version, bullpen.__version__):
            return False
        await server.call("POST", "/control", Control(command="shutdown_if_idle"), timeout_s=5)
    except BullpenError:
        return False
    return True


def is_older(theirs: str, ours: str) -> bool:
    """Whether `theirs` is a version before `ours`; what is no version at all is never older."""
    numbers = [re.match(r"v?(\d+(?:\.\d+)*)", text) for text in (theirs, ours)]
    if not all(numbers):
        return False
    theirs_key, ours_key = ([int(n) for n in found[1].split(".")] for found in numbers if found)
    return theirs_key < ours_key


def _ready_timeout_s(env: Mapping[str, str]) -> float:
    """`BULLPEN_SERVER_READY_TIMEOUT` as a duration (`20s`, `500ms`, `2m`) or plain seconds."""
    text = env.get("BULLPEN_SERVER_READY_TIMEOUT", "")
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|)", text.strip())
    if not found:
        return READY_TIMEOUT_S
    return float(found[1]) * {"ms": 0.001, "s": 1, "m": 60, "": 1}[found[2]]


@asynccontextmanager
async def _start_lock(address: UnixAddress, env: Mapping[str, str], limit_s: float) -> AsyncIterator[None]:
    """One starter at a time. A lock that cannot be had is done without: the socket decides in the end."""
    try:
        notes = notes_directory(address, env)
        notes.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = private(notes / "start.lock", os.O_CREAT | os.O_RDWR)
    except OSError:
        yield
        return
    try:
        with anyio.move_on_after(limit_s):
            while not _try_lock(lock):
                await anyio.sleep(PAUSE_S)
        yield
    finally:
        os.close(lock)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
