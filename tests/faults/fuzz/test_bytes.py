"""Any bytes on a connection: a reason in JSON or the end of the connection, never a 500, and nothing stays behind (R-34)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.fuzz.corpus import CHUNKS, FRAMINGS, REQUESTS, SILENT
from tests.faults.fuzz.target import Target
from tests.faults.soak.process import settled, size, stats
from tests.journeys.stream import connect

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
POST = b"POST /v1/workspaces/%b/sessions HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture(autouse=True)
def leaves_nothing(target: Target) -> Iterator[None]:
    """After each test the server is alive, holds what it held before, and has no traceback in its log."""
    before = size(target.bullpen)
    yield
    settled(target.bullpen, before, "nothing to stay behind")
    assert target.bullpen.call("GET", "/health").status_code == 200
    assert "Traceback (most recent call last)" not in target.bullpen.log


# One request at a time


@pytest.mark.parametrize("name", REQUESTS)
def test_bad_bytes_are_refused(target: Target, name: str) -> None:
    """A status from 400 on that is not 500, or a closed connection."""
    answers = answers_to(exchange(target.bullpen.socket, REQUESTS[name]))
    assert len(answers) == (0 if name in SILENT else 1)
    assert all(400 <= status < 500 or status in {307, 505} for status, _ in answers)


@pytest.mark.parametrize("name", FRAMINGS)
def test_a_hidden_request_is_not_served(target: Target, name: str) -> None:
    """What two parsers would cut differently is refused whole: the second request in it never runs."""
    workspace = target.client.info["id"].encode()
    hidden = POST % workspace + b'Content-Length: 21\r\n\r\n{"title": "Smuggled"}'
    framing = FRAMINGS[name].replace(b"{n}", b"%d" % (len(hidden) + 5))
    answers = answers_to(
        exchange(target.bullpen.socket, POST % workspace + framing + b"\r\n0\r\n\r\n" + hidden)
    )
    assert [status for status, _ in answers] == [400]
    titles = {session["title"] for session in target.client.ok("GET", "/sessions")}
    assert "Smuggled" not in titles


@pytest.mark.parametrize("name", CHUNKS)
def test_bad_chunks_are_refused(target: Target, name: str) -> None:
    head = POST % target.client.info["id"].encode() + b"Transfer-Encoding: chunked\r\n\r\n"
    answers = answers_to(exchange(target.bullpen.socket, head + CHUNKS[name]))
    assert [status for status, _ in answers] in ([400], [431])


def test_a_request_may_end_at_any_byte(target: Target, figure: Figure) -> None:
    """Cut behind each byte, over HTTP/1.1 and in the preface of HTTP/2: whole or not at all, never half."""
    body = b'{"title": "Cut"}'
    whole = POST % target.client.info["id"].encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
    made = {session["id"] for session in target.client.ok("GET", "/sessions")}
    for end in range(len(whole)):
        assert exchange(target.bullpen.socket, whole[:end]) == b""
    for end in range(len(PREFACE)):
        assert all(status == 400 for status, _ in answers_to(exchange(target.bullpen.socket, PREFACE[:end])))
        wrong = PREFACE[:end] + b"\x00" + PREFACE[end + 1 :]
        assert all(400 <= status <= 505 for status, _ in answers_to(exchange(target.bullpen.socket, wrong)))
    assert {session["id"] for session in target.client.ok("GET", "/sessions")} == made
    corpus = len(REQUESTS) + len(FRAMINGS) + len(CHUNKS)
    figure(
        "R-34",
        "FUZZ",
        f"0 × 500 for a corpus of {corpus} bad requests and {len(whole) + 2 * len(PREFACE)} cut ones",
    )


# Floods


def test_a_body_beyond_its_cap_is_refused(target: Target) -> None:
    """Announced, or found out while it comes; the cap of prompts is higher, and the server holds no more than that."""
    for path, cap in (("sessions", 1 << 20), ("agent", 64 << 20)):
        head = f"POST /v1{target.client.url}/{path} HTTP/1.1\r\nHost: a\r\n".encode()
        announced = head + b"Content-Length: %d\r\n\r\n" % (cap + 1)
        assert [status for status, _ in answers_to(exchange(target.bullpen.socket, announced))] == [413]
    head = f"POST /v1{target.client.url}/sessions HTTP/1.1\r\nHost: a\r\n".encode()
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    poured = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 17
    assert [status for status, _ in answers_to(exchange(target.bullpen.socket, poured))] == [413]


def test_a_flood_of_pipelined_requests(target: Target) -> None:
    """Answered in order up to the limit; what is beyond it ends the connection, not the server."""
    one = b"GET /v1/health HTTP/1.1\r\nHost: a\r\n\r\n"
    answers = answers_to(exchange(target.bullpen.socket, one * 5_000))
    statuses = Counter(status for status, _ in answers)
    assert set(statuses) <= {200, 400}
    assert statuses[400] <= 1


@pytest.mark.timeout(120)
def test_a_flood_of_connections(target: Target, figure: Figure) -> None:
    """Beyond 2,000 connections everybody is told so; those who are in stay in, and room is made when they leave."""
    extra = 200
    with contextlib.ExitStack() as stack:
        for _ in range(2_000 - stats(target.bullpen)[1]["connections"]):
            stack.enter_context(connect(target.bullpen.socket))
        told = Counter(turned_away(target.bullpen.socket) for _ in range(extra))
        assert told["in"] == 0
        assert told["503"] > 0
    figure(
        "R-34",
        "FUZZ",
        f"2,000 connections held, {extra} more: {told['503']} × 503, {told['cut']} cut, 0 let in",
    )


def turned_away(path: str) -> str:
    try:
        answers = answers_to(exchange(path, b"GET /v1/health HTTP/1.1\r\nHost: a\r\n\r\n"))
    except OSError:
        return "cut"
    return "cut" if not answers else "503" if answers[0][0] == 503 else "in"


# Slow ones


@pytest.mark.timeout(120)
async def test_slowloris(target: Target, figure: Figure) -> None:
    """Headers and bodies that drip in, many at a time: each is answered with 408, and others are served meanwhile."""
    many = sized(50, 400)
    workspace = target.client.info["id"].encode()
    drips = {
        "header": b"GET /v1/health HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 1_000,
        "body": POST % workspace + b"Content-Length: 10000\r\n\r\n" + b" " * 10_000,
        "chunks": POST % workspace + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 10_000,
    }
    async with asyncio.TaskGroup() as tasks:
        dripping = [
            tasks.create_task(drip(target.bullpen.socket, data))
            for data in drips.values()
            for _ in range(many)
        ]
        served = 0
        while not all(task.done() for task in dripping):
            answer = await asyncio.to_thread(target.bullpen.call, "GET", "/health")
            served += answer.status_code == 200
            await asyncio.sleep(0.1)
    assert Counter(task.result() for task in dripping) == {408: len(dripping)}
    figure(
        "R-34", "FUZZ", f"{len(dripping)} slow requests all ended with 408, {served} others served meanwhile"
    )


async def drip(path: str, data: bytes) -> int:
    """A request in small bits, for as long as the server takes it; gives back the status of the answer.

    On a bare socket: a stream of asyncio throws away what was received when one of its writes fails, and the server may hang up
    while a byte is on its way.
    """
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        await loop.sock_connect(connection, path)
        answer = asyncio.create_task(everything(connection))
        head, _, rest = data.partition(b"\r\n\r\n") if b"POST" in data else (data[:30], b"", data[30:])
        with contextlib.suppress(ConnectionError):
            await loop.sock_sendall(connection, head + (b"\r\n\r\n" if b"POST" in data else b""))
            for byte in rest:
                await loop.sock_sendall(connection, bytes([byte]))
                done, _ = await asyncio.wait({answer}, timeout=0.5)
                if done:
                    break
        ((status, _),) = answers_to(await answer)
        return status


async def everything(connection: socket.socket) -> bytes:
    """Until the server hangs up, which it may do before it has read all of ours."""
    taken = b""
    with contextlib.suppress(ConnectionError):
        while piece := await asyncio.get_running_loop().sock_recv(connection, 65536):
            taken += piece
    return taken


# What was answered


def answers_to(raw: bytes) -> list[tuple[int, bytes]]:
    """The answers in what came back: status and body. Errors have a reason in JSON, but where the reference has text."""
    answers: list[tuple[int, bytes]] = []
    while raw.startswith(b"HTTP/1.1 "):  # HTTP/2 has its own way to say no.
        head, _, rest = raw.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields.get(b"content-length", b"0"))
        body, raw = rest[:length], rest[length:]
        assert status != 500
        if status >= 400 and fields[b"content-type"].startswith(b"application/json"):
            assert json.loads(body)["message"]
        elif status >= 400:
            assert status in {404, 405}
        answers.append((status, body))
    return answers


def exchange(path: str, data: bytes) -> bytes:
    """Send, say that no more will come, and take everything until the server hangs up."""
    answer = b""
    with connect(path) as sock:
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while piece := sock.recv(65536):
                answer += piece
    return answer
