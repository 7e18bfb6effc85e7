"""Fan-out: what was committed reaches every subscriber, in the order of the log, encoded once.

A `Feed` belongs to one open workspace. It keeps a bounded tail of recent frames; a subscriber is a
position in that tail, never a queue, so a slow one costs nothing. Who falls out of the tail is `lost`
and catches up from the stored log by its last durable number; nothing is ever dropped in silence.

The feed knows no nouns. What grows (a message being written) is a `Live` object, which can say how it
looks whole and how it grew; subscribers choose one of the two forms.

Ids: a durable event is `<epoch>-<seq>`. Anything else is `<epoch>-<seq>.<generation>.<n>` with the last
durable seq before it; the generation changes with every opening of the log, so no id comes twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

TAIL_BYTES = 1 << 20
"""How much of the recent past is kept in memory per workspace: enough for a slow second of a fast run."""

TAIL_ENTRIES = 8192
ENTRY_BYTES = 120
"""What an entry costs beside its frames, roughly."""

WHOLE_INTERVAL_S = 0.033
"""Subscribers that want whole messages get at most one per message in this time."""

WHOLE_BYTES_PER_S = 512 * 1024
"""And of a long message no more than this, or the bytes would grow with its square."""

CHUNK_BYTES = 64 * 1024
"""The most that one `take` hands out, so that one connection never holds more than this unsent."""


class Live(Protocol):
    """Something that grows between its durable states."""

    def settle(self, body: bytes) -> None:
        """It was stored whole and looks like this."""
        ...

    def grow(self, part: str, text: str) -> bytes:
        """Take the text in and give back the JSON of the delta."""
        ...

    def whole(self) -> bytes:
        """The JSON of how it looks now."""
        ...


class Fact(NamedTuple):
    """One event on its way out. `seq` is 0 for what is not in the log.

    `live` with `growth`: the object grew by (part, text). `live` without: the object is open from here
    on and looks like `body`. A fact about a `key` without `live` closes it.
    """

    workspace: str
    kind: str
    action: str
    key: str
    body: bytes
    seq: int = 0
    live: Live | None = None
    growth: tuple[str, str] | None = None


class Entry:
    """One event in the tail, in the forms that somebody asked for."""

    __slots__ = ("delta", "growth", "index", "seq", "size", "volatile", "whole")

    def __init__(
        self,
        seq: int,
        *,
        volatile: bool,
        growth: bool = False,
        whole: bytes | None = None,
        delta: bytes | None = None,
    ) -> None:
        self.seq = seq
        self.volatile = volatile
        self.growth = growth
        self.whole = whole
        self.delta = delta
        self.index = -1
        self.size = 0


class Subscription:
    """A position in a feed. Owned by one stream, which waits on `wake` and then calls `take`.

    While the stream `waits` with nothing left to take, the feed hands new frames straight to its connection
    (`write_now`); a stream is woken only when its connection has no room."""

    def __init__(self, feed: Feed, *, deltas: bool) -> None:
        self.feed = feed
        self.deltas = deltas
        self.position = feed.next_index
        self.seq = feed.head
        """The last durable number this subscriber has been given."""
        self.wake = asyncio.Event()
        self.waits = False
        self.write_now: Callable[[bytes], bool] | None = None
        """Writes to the stream's connection if that has room."""
        self.written_at = 0.0
        """When the feed last wrote there, by the event loop's clock."""
        self.closed = False

    @property
    def lost(self) -> bool:
        """Whether the tail has moved past this subscriber."""
        return self.position < self.feed.first_index

    def take(self) -> bytes:
        """What is new, up to `CHUNK_BYTES` or one frame; empty when nothing is. Not to be called when lost."""
        frames: list[bytes] = []
        size = 0
        feed = self.feed
        while self.position < feed.next_index:
            entry = feed.entry(self.position)
            piece = entry.delta if self.deltas else entry.whole
            if piece is not None:
                size += len(piece)
                # A frame that is longer goes out alone, as it is: joined to others it would be a copy for each client.
                if frames and size > CHUNK_BYTES:
                    break
                frames.append(piece)
            self.position += 1
            if not entry.volatile:
                self.seq = entry.seq
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def join(self, seq: int, *, show_open: bool) -> list[bytes] | None:
        """Go on from the log, which was read up to `seq`, to the feed: gives back what came after, and what is
        growing: with `show_open` in any case, else if it has grown. None when the tail no longer reaches back
        that far.

        What was said of the moment before `seq` is left out: it is no longer true, and its id lies behind."""
        feed = self.feed
        frames: list[bytes] = []
        durable = seq
        for index in range(max(self.position, feed.first_index), feed.next_index):
            entry = feed.entry(index)
            if entry.growth:
                show_open = True
                continue
            if entry.seq < seq or (entry.seq == seq and not entry.volatile):
                continue
            if not entry.volatile:
                if entry.seq != durable + 1:
                    return None
                durable = entry.seq
            piece = entry.delta if self.deltas else entry.whole
            if piece is not None:
                frames.append(piece)
        if durable < feed.head:
            return None
        self.position = feed.next_index
        self.seq = durable
        return frames + feed.open_frames() if show_open else frames

    def call(self) -> None:
        """Let the stream take by itself what is new."""
        self.waits = False
        self.wake.set()

    def close(self) -> None:
        """End the stream that reads here, cleanly."""
        self.closed = True
        self.call()


class Feed:
    """The events of one open workspace. All methods run on the event loop."""

    def __init__(
        self,
        *,
        epoch: str,
        head: int,
        generation: int,
        frame: Callable[[str, str, str, bytes], bytes],
        clock: Callable[[], float],
    ) -> None:
        self.epoch = epoch
        self.head = head
        self.generation = generation
        self._frame = frame
        self._clock = clock
        self._minted = 0
        self._tail: deque[Entry] = deque()
        self._tail_bytes = 0
        self.first_index = 0
        self.subscriptions: set[Subscription] = set()
        self._delta_followers = 0
        self._open: dict[str, Live] = {}
        self._shown_whole: dict[str, tuple[float, Entry | None]] = {}
        self._due: dict[str, asyncio.TimerHandle] = {}
        self._closed = False

    @property
    def next_index(self) -> int:
        return self.first_index + len(self._tail)

    @property
    def cursor(self) -> str:
        return f"{self.epoch}-{self.head}"

    @property
    def has_deltas(self) -> bool:
        """Whether anybody follows by deltas."""
        return self._delta_followers > 0

    @property
    def has_wholes(self) -> bool:
        """Whether anybody follows by whole messages."""
        return self._delta_followers < len(self.subscriptions)

    def entry(self, index: int) -> Entry:
        return self._tail[index - self.first_index]

    def subscribe(self, *, deltas: bool) -> Subscription:
        if self._closed:
            raise RuntimeError("the feed is closed")
        subscription = Subscription(self, deltas=deltas)
        self.subscriptions.add(subscription)
        self._delta_followers += deltas
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        if subscription in self.subscriptions:
            self.subscriptions.remove(subscription)
            self._delta_followers -= subscription.deltas

    def mint(self, seq: int | None = None) -> str:
        """An id for something that is not in the log, said after the durable event `seq`, or after the last."""
        self._minted += 1
        return f"{self.epoch}-{self.head if seq is None else seq}.{self.generation}.{self._minted}"

    def single(self, kind: str, action: str, body: bytes, seq: int | None = None) -> bytes:
        """A frame for one stream alone, which has come as far as `seq`."""
        return self._frame(self.mint(seq), kind, action, body)

    def open_frames(self) -> list[bytes]:
        """Each object that is growing now, whole."""
        return [self.single("message", "updated", live.whole()) for live in self._open.values()]

    def publish(self, facts: list[Fact]) -> None:
        start = self.next_index
        for fact in facts:
            if fact.growth is not None:
                self._publish_growth(fact)
            else:
                self._publish_plain(fact)
        self._hand_out(start)

    def rewind(self, epoch: str, head: int) -> None:
        """The log goes on from an earlier number, under a new epoch: every subscriber is lost and has to read it."""
        self.epoch = epoch
        self.head = head
        self.first_index = self.next_index + 1
        self._tail.clear()
        self._tail_bytes = 0
        self._open.clear()
        self._shown_whole.clear()
        self._stop_timers()
        for subscription in self.subscriptions:
            subscription.wake.set()

    def close(self) -> None:
        """End every stream after what is in the tail has been sent."""
        self._closed = True
        self._stop_timers()
        for subscription in self.subscriptions:
            subscription.close()

    def _stop_timers(self) -> None:
        for timer in self._due.values():
            timer.cancel()
        self._due.clear()

    def _publish_plain(self, fact: Fact) -> None:
        if fact.seq:
            self.head = fact.seq
        if fact.live is not None:
            fact.live.settle(fact.body)
            self._open[fact.key] = fact.live
        elif fact.key in self._open and fact.kind == "message":
            del self._open[fact.key]
        if fact.kind == "message":
            self._forget_whole(fact.key)
        event_id = f"{self.epoch}-{fact.seq}" if fact.seq else self.mint()
        frame = self._frame(event_id, fact.kind, fact.action, fact.body)
        self._append(Entry(self.head, volatile=not fact.seq, whole=frame, delta=frame))

    def _publish_growth(self, fact: Fact) -> None:
        live, growth = fact.live, fact.growth
        assert live is not None and growth is not None
        self._open[fact.key] = live
        delta = live.grow(*growth)
        event_id = self.mint()
        entry = Entry(self.head, volatile=True, growth=True)
        if self.has_deltas:
            entry.delta = self._frame(event_id, "message_delta", "updated", delta)
        self._show_whole(fact.key, live, entry, event_id)
        if entry.whole is not None or entry.delta is not None:
            self._append(entry)

    def _show_whole(self, key: str, live: Live, entry: Entry, event_id: str) -> None:
        """Fill in the whole form, if anybody wants it and the last one is old enough."""
        if not self.has_wholes:
            return
        now = self._clock()
        next_at, previous = self._shown_whole.get(key, (0.0, None))
        wait = next_at - now
        if wait > 0:
            if key not in self._due:
                loop = asyncio.get_running_loop()
                self._due[key] = loop.call_later(wait, self._show_due, key)
            return
        self._drop_whole(previous)
        entry.whole = self._frame(event_id, "message", "updated", live.whole())
        pause = max(WHOLE_INTERVAL_S, len(entry.whole) / WHOLE_BYTES_PER_S)
        self._shown_whole[key] = (now + pause, entry)

    def _show_due(self, key: str) -> None:
        """The interval is over and nothing newer came by itself: show how the object looks now."""
        self._due.pop(key, None)
        live = self._open.get(key)
        if live is None:
            return
        start = self.next_index
        entry = Entry(self.head, volatile=True, growth=True)
        self._show_whole(key, live, entry, self.mint())
        if entry.whole is not None:
            self._append(entry)
            self._hand_out(start)

    def _hand_out(self, start: int) -> None:
        """Give every subscriber what is new from `start` on: the same bytes to all who are up to date and whose
        connection has room. The others come for it."""
        self._trim()
        end = self.next_index
        pieces = {
            deltas: self._piece(start, deltas=deltas)
            for deltas, wanted in ((True, self.has_deltas), (False, self.has_wholes))
            if wanted and start >= self.first_index
        }
        for subscription in self.subscriptions:
            if subscription.waits and subscription.position == start and subscription.write_now is not None:
                piece = pieces.get(subscription.deltas)
                if piece is not None and (not piece or subscription.write_now(piece)):
                    subscription.position = end
                    subscription.seq = self.head
                    if piece:
                        subscription.written_at = asyncio.get_running_loop().time()
                    continue
            subscription.call()

    def _piece(self, start: int, *, deltas: bool) -> bytes | None:
        """The frames from `start` on in one form; None when they are too many for one write."""
        frames = [
            frame
            for entry in (self.entry(index) for index in range(start, self.next_index))
            if (frame := entry.delta if deltas else entry.whole) is not None
        ]
        piece = frames[0] if len(frames) == 1 else b"".join(frames)
        return piece if len(piece) <= CHUNK_BYTES else None

    def _forget_whole(self, key: str) -> None:
        """A durable state follows: what is still unsent of the growth before it is superseded."""
        timer = self._due.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._drop_whole(self._shown_whole.pop(key, (0.0, None))[1])

    def _drop_whole(self, entry: Entry | None) -> None:
        if entry is None or entry.whole is None:
            return
        if entry.index >= self.first_index:
            entry.size -= len(entry.whole)
            self._tail_bytes -= len(entry.whole)
        entry.whole = None

    def _append(self, entry: Entry) -> None:
        entry.index = self.next_index
        shared = entry.delta is entry.whole
        entry.size = len(entry.whole or b"") + (0 if shared else len(entry.delta or b"")) + ENTRY_BYTES
        self._tail.append(entry)
        self._tail_bytes += entry.size

    def _trim(self) -> None:
        while len(self._tail) > 1 and (self._tail_bytes > TAIL_BYTES or len(self._tail) > TAIL_ENTRIES):
            self._tail_bytes -= self._tail.popleft().size
            self.first_index += 1
