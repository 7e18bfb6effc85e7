"""The running server: how it stops, and what a signal does to its process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import h2.events
import pytest
from tests.server.raw import Client, Client2, Play, serving

from bullpen.server.listen import bind_tcp
from bullpen.server.serve import HttpServer

SERVER = """
import asyncio, sys, time
from pathlib import Path
from bullpen.server.listen import bind_unix
from bullpen.server.serve import HttpServer, run, stop_signals
from tests.server.raw import Play

async def main():
    play, stopped = Play(), asyncio.Event()
    server = HttpServer(play, [bind_unix(Path(sys.argv[1]))])
    with stop_signals(stopped.set):
        await server.start()
        print("ready", type(asyncio.get_running_loop()).__module__, flush=True)
        await stopped.wait()
        print("heard", flush=True)
        if "hang" in sys.argv:
            time.sleep(60)
        play.release.set()
        await server.stop(grace_s=5)
    print("stopped", flush=True)

run(main)
"""


@pytest.fixture(params=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@contextlib.asynccontextmanager
async def server_process(*words: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, Path]]:
    with tempfile.TemporaryDirectory(prefix="bp-") as directory:
        path = Path(directory, "s.sock")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVER, str(path), *words, stdout=subprocess.PIPE, env=_environment()
        )
        try:
            yield process, path
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


def _environment() -> dict[str, str]:
    """The child finds what we find."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


async def line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_open_streams_and_exits_with_0(signum: signal.Signals) -> None:
    """The stream ends cleanly, the socket file is gone, and the signal is not raised again."""
    async with server_process() as (process, path):
        assert await line(process) == "ready uvloop"
        client = Client(*await asyncio.open_unix_connection(str(path)))
        client.send("GET /events HTTP/1.1\nHost: here\n\n")
        await client.head()
        process.send_signal(signum)
        assert await client.reader.read() == b"data: 1\n\ndata: 2\n\n"
        client.writer.close()
        assert [await line(process), await line(process)] == ["heard", "stopped"]
        assert await process.wait() == 0
        assert list(path.parent.iterdir()) == []


async def test_a_second_signal_ends_a_server_that_hangs() -> None:
    async with server_process("hang") as (process, _path):
        await line(process)
        process.send_signal(signal.SIGTERM)
        assert await line(process) == "heard"
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 128 + signal.SIGTERM


async def test_a_stop_waits_for_answers_under_way() -> None:
    """Idle connections close at once, a new one is not accepted, the open stream gets its end."""
    play = Play()
    async with serving(play) as here:
        idle, busy = await here.connect(), await here.connect()
        idle.send("GET / HTTP/1.1\nHost: here\n\n")
        await idle.answer()
        busy.send("GET /events HTTP/1.1\nHost: here\n\n")
        await busy.head()
        stopping = asyncio.create_task(here.server.stop(grace_s=30))
        assert await idle.ended()
        with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
            await here.connect()
        play.release.set()
        assert await busy.reader.read() == b"data: 1\n\ndata: 2\n\n"
        await stopping


async def test_a_stop_waits_for_what_a_window_holds_back() -> None:
    """The application has written all of it, the client has not yet made room for it."""
    async with serving(Play()) as here:
        client = Client2(await here.connect())
        stream = client.request("/big")
        assert await client.next(h2.events.ResponseReceived, stream)
        stopping = asyncio.create_task(here.server.stop(grace_s=30))
        assert len(await client.body(stream)) == 300_000
        await stopping


async def test_a_stop_cuts_what_does_not_end() -> None:
    """A stream, a stalled client and a half-sent request all end when the grace is over."""
    play = Play()
    async with serving(play) as here:
        stream, half = await here.connect(), await here.connect()
        stream.send("GET /events HTTP/1.1\nHost: here\n\n")
        await stream.head()
        half.send("POST /echo HTTP/1.1\nHost: here\nContent-Length: 5\n\nab")
        second = Client2(await here.connect())
        second.request("/events")
        await here.ask("GET / HTTP/1.1\nHost: here\n\n")
        await here.server.stop(grace_s=0)
        await play.closed.wait()
        assert here.server.tally == {"cut_at_stop": 3}


async def test_tcp_and_unix_are_served_side_by_side() -> None:
    """On TCP nobody is known by a uid."""
    tcp = bind_tcp("127.0.0.1", 0)
    async with HttpServer(Play(), [tcp]):
        client = Client(*await asyncio.open_connection(*tcp.getsockname()))
        client.send("GET /scope HTTP/1.1\nHost: here\n\n")
        seen = (await client.answer()).json()
        assert (seen["uid"], seen["unix"]) == (None, False)
        client.writer.close()


async def test_a_refusal_can_be_read_on_tcp() -> None:
    """The client is still sending when it is refused; a plain close would break its connection first."""
    tcp = bind_tcp("127.0.0.1", 0)
    address = tcp.getsockname()

    def send_all_then_read() -> bytes:
        with socket.create_connection(address) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000_000)
            return sock.recv(12)

    async with HttpServer(Play(), [tcp]):
        assert await asyncio.to_thread(send_all_then_read) == b"HTTP/1.1 431"


def test_a_child_does_not_inherit_the_listener() -> None:
    """A tool that outlives the server must not keep its port."""
    with bind_tcp("127.0.0.1", 0) as sock:
        assert not os.get_inheritable(sock.fileno())
        assert sock.type == socket.SOCK_STREAM
