"""Clients that freeze, stall, half-close and vanish: they delay nobody, cost little, and leave nothing (R-15, R-16)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
import uuid
from collections.abc import AsyncIterator, Callable

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.soak.process import counts, most_kib, settled, size, stats
from tests.faults.soak.room import Stream
from tests.journeys.server import Bullpen, Client, until
from tests.journeys.stream import connect

FROZEN, LIVE = 100, 50
CYCLES = sized(120, 1_000)
UNSENT_BYTES = 256 * 1024
"""What one client may hold, by promise."""

LONG = " ".join(f"word{n}" for n in range(20_000))
SCRIPT = ({"when": "long", "say": LONG}, {"say": "hi"})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.timeout(180)
async def test_frozen_clients_delay_nobody(home: Bullpen, figure: Figure) -> None:
    """Everybody who reads gets everything in order, as quickly as before, while a hundred others read nothing."""
    await asyncio.to_thread(home.start)
    client = home.attach(home.project(*SCRIPT))
    session_id = client.session()
    async with live_clients(home, client) as live:
        warm = [await asyncio.to_thread(client.prompt, session_id, "long", f"w{n}") for n in range(6)]
        for each in live:
            await each.until(lambda each: set(warm) <= each.ended.keys(), "the first runs to end")
        before = await latencies(client, live)
        files = home.open_files
        for _ in range(FROZEN):
            home.stream(f"{client.url}/events?client_id={uuid.uuid4()}", read=False)
        before_kib = most_kib(home)
        run_ids = [await asyncio.to_thread(client.prompt, session_id, "long", f"r{n}") for n in range(6)]
        for each in live:
            await each.until(lambda each: set(run_ids) <= each.ended.keys(), "every run to end")
        with_frozen = await latencies(client, live)
        grown_kib = most_kib(home) - before_kib
        gauges = stats(home)[1]
        assert gauges["streams"] == FROZEN + LIVE, "nobody was cut, so all of them were in the way"
        assert home.open_files == files + FROZEN
    assert all(each.text == LONG for each in live)
    assert all(each.ended == dict.fromkeys(warm + run_ids, 1) for each in live)
    # From where the last of them came in to where the first one left: something may have happened while they did.
    since, until = max(each.durable[0] for each in live), min(each.durable[-1] for each in live)
    kept = await replayed(home, client, live[0].epoch, since, until)
    for each in live:
        assert each.durable == sorted(set(each.durable)), "everything once, and in order"
        # Whoever was behind for a moment may have been spared states that others had replaced by then.
        assert kept <= set(each.durable), "nobody missed anything that is kept"
    unsent = gauges["unsent_bytes_of_a_stream"]
    assert unsent <= UNSENT_BYTES
    # On a busy machine those who read are behind for moments as well.
    assert grown_kib * 1024 < (FROZEN + LIVE) * UNSENT_BYTES
    figure(
        "R-15",
        "SOAK",
        f"{FROZEN} frozen, {LIVE} live: 0 events lost of {LIVE * len(kept):,}; p99 {p99_ms(before):.0f} ms without, "
        f"{p99_ms(with_frozen):.0f} ms with them",
    )
    figure(
        "R-16",
        "SOAK",
        f"most unsent of a stream {unsent / 1024:.0f} KiB; {FROZEN} frozen clients took {grown_kib / 1024:.1f} MiB in all",
    )


class Live:
    """A client that reads everything at once."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._changed = asyncio.Event()
        self.seen_at: dict[str, float] = {}
        """When the session of a title was announced here."""
        self.ended: dict[str, int] = {}
        self.text = ""
        self.durable: list[int] = []
        self.epoch = ""

    async def read(self) -> None:
        async for event_id, kind, payload in self._stream.numbered():
            if "." not in event_id:
                self.epoch, _, number = event_id.rpartition("-")
                self.durable.append(int(number))
            if kind == "session":
                self.seen_at.setdefault(payload["title"], time.perf_counter())
            elif kind == "run_complete":
                self.ended[payload["run_id"]] = self.ended.get(payload["run_id"], 0) + 1
                self.text = payload["text"]
            self._changed.set()

    async def until(self, look: Callable[[Live], bool], what: str) -> None:
        async with asyncio.timeout(60):
            while not look(self):
                self._changed.clear()
                await self._changed.wait()
        assert look(self), what


async def replayed(home: Bullpen, client: Client, epoch: str, since: int, until: int) -> set[int]:
    """The numbers of all events after one of them, up to another, that the log still has."""
    found: set[int] = set()
    after = f"{epoch}-{since}"
    async with (
        asyncio.timeout(60),
        Stream.open(home.socket, client.info["id"], str(uuid.uuid4()), after=after) as stream,
    ):
        async for event_id, _, _ in stream.numbered():
            if "." not in event_id:
                number = int(event_id.rpartition("-")[2])
                found.add(number)
                if number >= until:
                    break
    return {number for number in found if number <= until}


@contextlib.asynccontextmanager
async def live_clients(home: Bullpen, client: Client) -> AsyncIterator[list[Live]]:
    workspace = client.info["id"]
    async with contextlib.AsyncExitStack() as stack:
        opened = [Stream.open(home.socket, workspace, str(uuid.uuid4())) for _ in range(LIVE)]
        live = [Live(await stack.enter_async_context(each)) for each in opened]
        reading = [asyncio.create_task(each.read()) for each in live]
        try:
            yield live
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)


async def latencies(client: Client, live: list[Live]) -> list[float]:
    """From a request to its event at each client, over and over."""
    took: list[float] = []
    for _ in range(20):
        title = uuid.uuid4().hex
        began = time.perf_counter()
        await asyncio.to_thread(client.session, title)
        for each in live:
            await each.until(lambda each: title in each.seen_at, "the session")  # noqa: B023  # awaited at once
            took.append(each.seen_at[title] - began)
    return took


def p99_ms(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)] * 1000


# Vanishing


def open_stream(client: Client, sock: socket.socket) -> None:
    target = f"/v1{client.url}/events?client_id={uuid.uuid4()}"
    sock.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert sock.recv(12) == b"HTTP/1.1 200"


def half_close_stream(client: Client, sock: socket.socket) -> None:
    """Says that nothing more will come, and waits for the server to see it and hang up: no CLOSE_WAIT is left."""
    open_stream(client, sock)
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(65536):
        pass


VANISH: dict[str, Callable[[Client, socket.socket], None]] = {
    "at once": lambda client, sock: None,
    "in a header": lambda client, sock: sock.sendall(b"GET /v1/health HTTP/1.1\r\nHo"),
    "in a body": lambda client, sock: sock.sendall(
        b"POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"
    ),
    "before the answer": lambda client, sock: sock.sendall(b"GET /v1/workspaces HTTP/1.1\r\nHost: a\r\n\r\n"),
    "on a stream": open_stream,
    "half-closed": half_close_stream,
    "in HTTP/2": lambda client, sock: sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"),
}


def vanish(home: Bullpen, client: Client, cycles: int) -> None:
    for _ in range(cycles):
        for way in VANISH.values():
            with connect(home.socket) as sock:
                way(client, sock)
                # Zero seconds to linger: what is unsent is thrown away.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.timeout(sized(120, 3600))
def test_connecting_and_vanishing_leaves_nothing(home: Bullpen, figure: Figure) -> None:
    """In every way there is, over and over: no descriptor, no task, no memory."""
    home.start(BULLPEN_SERVER_DETACH_GRACE="0")
    client = home.attach(home.project({"say": "hi"}))
    client.stream()
    vanish(home, client, 30)
    warm = size(home)
    warm = settled(
        home, warm._replace(files=warm.files, streams=1, subscriptions=1, connections=2), "a start"
    )
    vanish(home, client, CYCLES // len(VANISH) + 1)
    after = settled(home, warm, "nothing to stay behind")
    grown_kib = after.rss_kib - warm.rss_kib
    assert grown_kib < 5 * 1024
    assert "Traceback (most recent call last)" not in home.log
    figure(
        "R-16",
        "SOAK",
        f"{(CYCLES // len(VANISH) + 1) * len(VANISH):,} connect-and-vanish cycles in {len(VANISH)} ways: "
        f"{after.files - warm.files} fds, {after.tasks - warm.tasks} tasks left, RSS +{max(0, grown_kib) / 1024:.1f} MiB",
    )


def test_stalled_clients_are_cut(home: Bullpen, figure: Figure) -> None:
    """Whoever takes nothing is cut, everybody, and gives everything back."""
    home.start(BULLPEN_SERVER_STALL="1")
    client = home.attach(home.project(*SCRIPT))
    stream, session_id = client.stream(), client.session()
    stream.completion(client.prompt(session_id, "long"))
    before = size(home)
    frozen = [home.stream(f"{client.url}/events?client_id={uuid.uuid4()}", read=False) for _ in range(FROZEN)]
    for n in range(4):
        stream.completion(client.prompt(session_id, "long", f"r{n}"))
    until(lambda: counts(home).get("stalled") == FROZEN, "all to be cut")
    after = settled(home, before, "everything to be given back")
    unsent = stats(home)[1]["unsent_bytes_of_a_stream"]
    assert unsent <= UNSENT_BYTES
    for each in frozen:
        each.cut()
    figure(
        "R-16",
        "SOAK",
        f"{FROZEN} of {FROZEN} stalled clients cut, {after.files - before.files} fds left, most unsent "
        f"{unsent / 1024:.0f} KiB each",
    )
