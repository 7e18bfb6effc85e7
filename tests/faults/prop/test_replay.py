"""R-13 by numbers: a long log, and clients that are cut at random bytes and come back with the last id they saw.

Each client sees every event exactly once and in order, or is told once that it cannot (`resync`) and goes on from there. The tail in
memory is far shorter than the log, and the log itself forgets, so clients live off all three: the tail, the log, and nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.campaign import sized
from tests.conftest import Figure

from bullpen.broker import tail
from bullpen.client.stream import Frame, FrameParser, Place
from bullpen.schema.events import RunComplete
from bullpen.store import log
from bullpen.store.store import Store, open_store
from bullpen.store.tx import Tx
from bullpen.system.clock import SystemClock
from bullpen.workspace.trail import Trail

WORKSPACE = "w1"
EVENTS = sized(20_000, 1_000_000)
CLIENTS = 8
KEPT = 1_500
"""So few that a reader who stays away for a dozen writes falls out of the log."""
TAIL_BYTES = 16 * 1024


class Told(msgspec.Struct):
    """The number of an event, as its payload has it."""

    run_id: str


class Inner(msgspec.Struct):
    payload: Told


class Outer(msgspec.Struct):
    payload: Inner


class Reader:
    """A client that is cut somewhere, keeps what it had whole, and comes back."""

    def __init__(self, store: Store, rng: random.Random, *, deltas: bool) -> None:
        self.store = store
        self.rng = rng
        self.deltas = deltas
        self.cursor = store.feeds[WORKSPACE].cursor
        self.last = 0
        self.seen = 0
        self.skipped = 0
        self.resyncs = 0
        self.cuts = 0
        self._trail: Trail | None = None
        self._parser = FrameParser()

    async def read(self) -> None:
        """Read what is there, or break off at any byte of it."""
        ends_at = self.rng.choice((None, None, self.rng.randrange(1, 200_000)))
        read = 0
        async for piece in self._pieces():
            if ends_at is not None and read + len(piece) >= ends_at:
                self._take(piece[: ends_at - read])
                self.be_cut()
                return
            read += len(piece)
            self._take(piece)

    async def _pieces(self) -> AsyncIterator[bytes]:
        if self._trail is None:
            feed = self.store.feeds[WORKSPACE]
            self._trail = Trail(self.store, WORKSPACE, feed, deltas=self.deltas, after=self.cursor)
            async for piece in self._trail.begin():
                yield piece
        trail = self._trail
        async for piece in trail.follow():
            yield piece

    def be_cut(self) -> None:
        if self._trail is not None:
            self.cuts += 1
            self._trail.close()
            self._trail = None
            self._parser = FrameParser()

    def _take(self, data: bytes) -> None:
        for frame in self._parser.feed(data):
            self._see(frame)

    def _see(self, frame: Frame) -> None:
        place = Place.of(frame.id)
        assert place is not None
        self.cursor = frame.id
        if place.volatile:
            # Nothing else is volatile here: the stream says that it goes on behind `seq`.
            assert b'"resync"' in frame.data
            assert place.seq > self.last
            self.resyncs += 1
            self.skipped += place.seq - self.last
        else:
            assert place.seq == self.last + 1, "a gap, a double, or out of order"
            assert int(msgspec.json.decode(frame.data, type=Outer).payload.payload.run_id) == place.seq
            self.seen += 1
        self.last = place.seq


async def _append(store: Store, first: int, count: int) -> None:
    async def work(tx: Tx) -> None:
        for number in range(first, first + count):
            event = RunComplete(session_id="s", run_id=str(number), message_id="")
            await log.append(tx, WORKSPACE, event, "updated", key=str(number))

    await store.write(work, durable=False)


@pytest.mark.timeout(sized(120, 3600))
async def test_every_event_once_and_in_order_whatever_is_cut(
    tmp_path: Path, figure: Figure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "TAIL_BYTES", TAIL_BYTES)
    monkeypatch.setattr(log, "KEPT_EVENTS", KEPT)
    monkeypatch.setattr(log, "KEPT_S", -1)
    rng = random.Random(13)
    async with open_store(tmp_path, clock=SystemClock(), attached=lambda workspace, session: 0) as store:
        await store.open_feed(WORKSPACE, "/p")
        readers = [Reader(store, rng, deltas=n % 2 == 1) for n in range(CLIENTS)]
        written = 0
        while written < EVENTS:
            count = min(rng.choice((1, 5, 50, 400)), EVENTS - written)
            await _append(store, written + 1, count)
            written += count
            for reader in readers:
                if rng.random() < 0.4:
                    await reader.read()
                elif rng.random() < 0.1:
                    reader.be_cut()
        for reader in readers:
            while reader.last < EVENTS:
                await reader.read()
    assert all(reader.seen + reader.skipped == EVENTS for reader in readers)
    seen, cuts = sum(r.seen for r in readers), sum(r.cuts for r in readers)
    assert min(r.cuts for r in readers) > 5
    assert sum(r.resyncs for r in readers) > 0, "nobody ever fell out of the log"
    figure(
        "R-13",
        "PROP",
        f"0 gaps, 0 doubles: {EVENTS:,} events to {CLIENTS} clients ({seen:,} seen), {cuts:,} cuts, "
        f"{sum(r.resyncs for r in readers):,} resyncs",
    )


async def test_how_long_a_replay_takes(tmp_path: Path, figure: Figure) -> None:
    """A figure, never a judgement: machines differ."""
    async with open_store(tmp_path, clock=SystemClock(), attached=lambda workspace, session: 0) as store:
        feed = await store.open_feed(WORKSPACE, "/p")
        begin = feed.cursor
        await _append(store, 1, 1000)
        took: list[float] = []
        for _ in range(20):
            began, parser, seen = time.perf_counter(), FrameParser(), 0
            trail = Trail(store, WORKSPACE, feed, deltas=False, after=begin)
            async for piece in trail.begin():
                seen += len(parser.feed(piece))
            took.append(time.perf_counter() - began)
            trail.close()
            assert seen == 1000
    figure("R-13", "PROP", f"1,000 events replayed in {sorted(took)[10] * 1000:.1f} ms (median of 20)")
