"""The door: who is let in, how many, and which HTTP they are handed to."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import h2.events
import pytest
from tests.server.raw import Client2, Play, serving

from bullpen.server.link import Limits, Peer
from bullpen.server.protocol import PREFACE

CONNECT = """
import os, socket, sys
path, uid = sys.argv[1], int(sys.argv[2])
with socket.socket(socket.AF_UNIX) as sock:
    if uid != os.getuid():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    sock.connect(path)
    try:
        sock.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        print(sock.recv(12).decode() or "hung up")
    except ConnectionError:
        print("hung up")
"""


@pytest.fixture(params=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


async def connect_as(path: str, uid: int) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CONNECT, path, str(uid), stdout=subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode().strip()


async def test_the_peer_is_who_the_kernel_says() -> None:
    """Another user is hung up on even where the file modes would let it connect; we are not."""
    play = Play()
    async with serving(play) as here:
        here.path.parent.chmod(0o755)
        here.path.chmod(0o777)
        assert await connect_as(str(here.path), os.geteuid()) == "HTTP/1.1 200"
        if os.geteuid() == 0:
            assert await connect_as(str(here.path), 65534) == "hung up"
            assert here.server.tally == {"refused_peer": 1}
        assert play.requests == ["/"]


def test_only_we_and_root_are_welcome_on_a_unix_socket() -> None:
    """An unknown peer is not welcome either; on TCP the application decides."""
    us = os.geteuid()
    peers = [Peer(us, True), Peer(0, True), Peer(us + 1, True), Peer(None, True), Peer(None, False)]
    assert [peer.welcome for peer in peers] == [True, True, False, False, True]


async def test_the_scope_tells_who_is_connected() -> None:
    async with serving(Play()) as here:
        answer = await here.ask("GET /scope?a=1 HTTP/1.1\nHost: here\n\n")
        assert answer.json() == {
            "version": "1.1",
            "host": ["here"],
            "cookie": [],
            "query": "a=1",
            "uid": os.geteuid(),
            "unix": True,
            "unsent": 0,
        }


async def test_both_kinds_of_http_share_the_socket() -> None:
    async with serving(Play()) as here:
        first = await here.connect()
        second = Client2(await here.connect())
        first.send("GET /one HTTP/1.1\nHost: here\n\n")
        stream = second.request("/two")
        assert (await second.answer(stream)).body == b"hello from /two"
        assert (await first.answer()).body == b"hello from /one"


@pytest.mark.parametrize("cut", [1, 3, 14, 23])
async def test_a_preface_may_come_in_pieces(cut: int) -> None:
    """The pieces are seen as two reads: between them another connection is served."""
    async with serving(Play()) as here:
        client = await here.connect()
        split = Client2(client)
        stream = split.conn.get_next_available_stream_id()
        pseudo = [(":method", "GET"), (":path", "/late"), (":scheme", "http"), (":authority", "here")]
        split.conn.send_headers(stream, pseudo, end_stream=True)
        data = split.conn.data_to_send()
        assert data.startswith(PREFACE)
        client.send(data[:cut])
        await here.ask("GET / HTTP/1.1\nHost: here\n\n")
        client.send(data[cut:])
        assert (await split.answer(stream)).body == b"hello from /late"


@pytest.mark.parametrize("first", ["P", "PR", "PRI"])
async def test_what_only_begins_like_a_preface_is_http1(first: str) -> None:
    """`POST` shares a letter with the preface, `PROPFIND` two, and `PRI` alone is no method."""
    rest = {"P": "OST", "PR": "OPFIND", "PRI": "X"}[
        first
    ] + " /echo HTTP/1.1\nHost: here\nContent-Length: 0\n\n"
    async with serving(Play()) as here:
        client = await here.connect()
        client.send(first)
        await here.ask("GET / HTTP/1.1\nHost: here\n\n")
        client.send(rest)
        assert (await client.answer()).status == (400 if first == "PRI" else 200)


async def test_half_a_preface_does_not_wait_for_ever() -> None:
    async with serving(Play(), Limits(head_s=0.05)) as here:
        client = await here.connect()
        client.send(PREFACE[:10])
        answer = await client.answer()
        assert (answer.status, answer.json()) == (
            408,
            {"message": "the request header did not arrive within 0.05 s"},
        )
        assert await client.ended()


async def test_one_connection_too_many_is_told_so() -> None:
    async with serving(Play(), Limits(connections=2)) as here:
        held = [await here.connect(), await here.connect()]
        for client in held:
            client.send("GET / HTTP/1.1\nHost: here\n\n")
            assert (await client.answer()).status == 200
        answer = await (await here.connect()).answer()
        assert (answer.status, answer.json()) == (503, {"message": "too many connections"})
        assert here.server.tally == {"refused_503": 1}


async def test_a_silent_connection_is_closed() -> None:
    async with serving(Play(), Limits(idle_s=1)) as here:
        assert await (await here.connect()).ended()


async def test_http2_with_garbage_behind_the_preface_is_closed() -> None:
    async with serving(Play()) as here:
        client = await here.connect()
        client.send(PREFACE + b"\xff" * 64)
        other = Client2(client)
        assert (await other.next(h2.events.ConnectionTerminated)).error_code != 0
        assert await other.next(h2.events.ConnectionTerminated) is None
