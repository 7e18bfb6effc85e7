"""Frozen, vanished, half-open and dawdling clients disturb nobody and leave nothing behind."""

from __future__ import annotations

import contextlib
import socket
import struct
import uuid
from collections.abc import Callable

import pytest
from tests.journeys.server import Bullpen, Client, until
from tests.journeys.stream import Seen, connect, reason_of, text_of

LONG = " ".join(f"word{n}" for n in range(20_000))
SCRIPT = ({"when": "long", "think": LONG[:50_000], "say": LONG}, {"say": "hi"})


@pytest.fixture
def impatient(home: Bullpen) -> Bullpen:
    """A server that cuts a client when none of its bytes was taken for a second."""
    return home.start(BULLPEN_SERVER_STALL="1")


def works(client: Client) -> None:
    """Somebody else's turn runs as if nothing were the matter."""
    stream = client.stream()
    assert stream.completion(client.prompt(client.session(), "hello"))["text"] == "hi"
    stream.cut()


def streams_of(client: Client, client_id: str) -> int:
    found = {each["client_id"]: int(each["streams"]) for each in client.ok("GET", "/clients")}
    return found.get(client_id, 0)


def test_a_client_that_never_reads_holds_nobody_up(impatient: Bullpen) -> None:
    """It fills its own connection and is cut; the others get everything, and the turn ends as usual."""
    client = impatient.attach(impatient.project(*SCRIPT))
    frozen = impatient.attach(client.path)
    frozen.stream(read=False)
    stream, session_id = client.stream(), client.session()
    for n in range(4):
        done = stream.completion(client.prompt(session_id, "long", f"r{n}"))
        assert done["text"] == LONG
    until(lambda: streams_of(client, frozen.client_id) == 0, "the frozen client to be cut")
    works(client)


def test_a_slow_reader_misses_nothing(shared: Bullpen) -> None:
    """It looks only when all is over. What later states replaced is left out for it, all else arrives once, in order."""
    client = shared.attach(shared.project(*SCRIPT))
    slow = shared.attach(client.path)
    raw = slow.stream(read=False).sock
    stream, session_id = client.stream(), client.session()
    for n in range(3):
        stream.completion(client.prompt(session_id, "long", f"r{n}"))
    taken = b""
    raw.settimeout(10)
    while taken.count(b'"type":"run_complete"') < 3:
        piece = raw.recv(4096)
        assert piece, "the slow reader was cut"
        taken += piece
    lines = taken.decode(errors="replace").split("\n")
    ids = [line[4:] for line in lines if line.startswith("id: ") and "." not in line]
    live = [event.id for event in stream.durable()]
    assert ids == [each for each in live if each in ids]
    replaced = {event.id for event in stream.durable() if event.action == "updated"} - {
        event.id for event in stream.durable() if event.kind == "run_complete" or reason_of_event(event)
    }
    assert set(live) - set(ids) <= replaced


def test_a_hundred_clients_that_never_read(impatient: Bullpen) -> None:
    """They cost a position each, not a copy of everything: the server stays small and quick."""
    client = impatient.attach(impatient.project(*SCRIPT))
    session_id = client.session()
    stream = client.stream()
    stream.completion(client.prompt(session_id, "long"))
    before = memory_mib(impatient)
    for _ in range(100):
        impatient.stream(f"{client.url}/events?client_id={uuid.uuid4()}", read=False)
    for n in range(3):
        stream.completion(client.prompt(session_id, "long", f"r{n}"))
    assert memory_mib(impatient) - before < 60
    works(client)


def test_clients_that_vanish_in_the_middle_of_a_turn(shared: Bullpen) -> None:
    """The stream is cut while it is being written to; the turn and the other client do not notice."""
    client = shared.attach(shared.project({"say": LONG[:4_000], "pace_ms": 1}))
    stream, session_id = client.stream(), client.session()
    others = [shared.attach(client.path) for _ in range(10)]
    cut = [other.stream() for other in others]
    run_id = client.prompt(session_id, "go")
    stream.speaking(session_id, "word20")
    for each in cut:
        each.cut()
    assert stream.completion(run_id)["text"] == LONG[:4_000]
    until(lambda: not any(streams_of(client, o.client_id) for o in others), "the vanished to be noticed")


def test_half_open_clients(shared: Bullpen) -> None:
    """A client that will say nothing more: on a stream, in a request, before one."""
    client = shared.attach(shared.project({"say": "hi"}))
    stream = shared.stream(f"{client.url}/events?client_id={client.client_id}", read=False)
    stream.sock.shutdown(socket.SHUT_WR)
    head = b"POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{"
    socks = [half_open(shared.socket, data) for data in (b"", b"GET /v1", head)]
    works(client)
    for sock in socks:
        assert sock.recv(1000) == b""
        sock.close()


def test_requests_that_never_come_to_an_end(shared: Bullpen) -> None:
    """Connections that stopped in the middle wait for themselves alone."""
    client = shared.attach(shared.project({"say": "hi"}))
    head = b"POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{"
    socks = []
    for data in (
        b"",
        b"G",
        b"GET /v1/health HTTP/1.1\r\nHost:",
        head,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ) * 20:
        socks.append(connect(shared.socket))
        socks[-1].sendall(data)
    works(client)
    for sock in socks:
        sock.close()


def open_stream(client: Client, sock: socket.socket) -> None:
    target = f"/v1{client.url}/events?client_id={uuid.uuid4()}"
    sock.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert sock.recv(12) == b"HTTP/1.1 200"


VANISH: dict[str, Callable[[Client, socket.socket], None]] = {
    "at once": lambda client, sock: None,
    "in a header": lambda client, sock: sock.sendall(b"GET /v1/health HTTP/1.1\r\nHo"),
    "in a body": lambda client, sock: sock.sendall(
        b"POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"
    ),
    "before the answer": lambda client, sock: sock.sendall(b"GET /v1/workspaces HTTP/1.1\r\nHost: a\r\n\r\n"),
    "on a stream": open_stream,
    "in HTTP/2": lambda client, sock: sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"),
}


@pytest.mark.parametrize("when", VANISH)
def test_connecting_and_vanishing_leaves_nothing(shared: Bullpen, when: str) -> None:
    """A hundred times; afterwards the server has as many files open as before."""
    client = shared.attach(shared.project({"say": "hi"}))
    works(client)
    before = until(lambda: shared.open_files, "a count")
    for _ in range(100):
        with connect(shared.socket) as sock:
            VANISH[when](client, sock)
            # Zero seconds to linger: what is unsent is thrown away.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    until(lambda: shared.open_files <= before, f"{before} open files again")
    works(client)
    until(lambda: shared.open_files <= before, f"{before} open files again")
    assert "Traceback (most recent call last)" not in shared.log


def test_a_prompt_outlives_the_connection_that_sent_it(shared: Bullpen) -> None:
    """The sender vanishes before it reads the 202; the prompt runs, or was never accepted, but nothing in between."""
    client = shared.attach(shared.project({"say": "hi"}))
    stream, session_id = client.stream(), client.session()
    body = b'{"session_id":"%b","prompt":"gone","run_id":"r1"}' % session_id.encode()
    head = f"POST /v1{client.url}/agent HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with connect(shared.socket) as sock:
        sock.sendall(head + body)
        assert sock.recv(12) == b"HTTP/1.1 202"
    stream.completion("r1")
    assert [text_of(message) for message in client.messages(session_id)] == ["gone", "hi"]


def reason_of_event(event: Seen) -> str:
    """How the message of an event ended; "" for anything else."""
    return reason_of(event.data) if event.kind == "message" else ""


def half_open(path: str, data: bytes) -> socket.socket:
    sock = connect(path)
    with contextlib.suppress(OSError):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
    return sock


def memory_mib(bullpen: Bullpen) -> float:
    """What the server process occupies."""
    with open(f"/proc/{bullpen.process.pid}/status", encoding="ascii") as status:
        kib = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return kib / 1024
