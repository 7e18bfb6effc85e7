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
from collections.abc import Callable

from bullpen.broker.facts import Fact, Live
from bullpen.broker.subscription import CHUNK_BYTES, Subscription
from bullpen.broker.tail import Entry, Tail

WHOLE_INTERVAL_S = 0.033
"""Subscribers that want whole messages get at most one per message in this time."""

WHOLE_BYTES_PER_S = 512 * 1024
"""And of a long message no more than this, or the bytes would grow with its square."""


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
        self.tail = Tail()
        self.subscriptions: set[Subscription] = set()
        self._delta_followers = 0
        self._open: dict[str, Live] = {}
        self._shown_whole: dict[str, tuple[float, Entry | None]] = {}
        self._due: dict[str, asyncio.TimerHandle] = {}
        self._closed = False

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
        start = self.tail.end
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
        self.tail.forget()
        self._open.clear()
        self._shown_whole.clear()
        self._stop_timers()
        for subscription in self.subscriptions:
            subscription.call()

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
        self.tail.append(Entry(self.head, volatile=not fact.seq, whole=frame, delta=frame))

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
            self.tail.append(entry)

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
        self.tail.drop_whole(previous)
        entry.whole = self._frame(event_id, "message", "updated", live.whole())
        pause = max(WHOLE_INTERVAL_S, len(entry.whole) / WHOLE_BYTES_PER_S)
        self._shown_whole[key] = (now + pause, entry)

    def _show_due(self, key: str) -> None:
        """The interval is over and nothing newer came by itself: show how the object looks now."""
        self._due.pop(key, None)
        live = self._open.get(key)
        if live is None:
            return
        start = self.tail.end
        entry = Entry(self.head, volatile=True, growth=True)
        self._show_whole(key, live, entry, self.mint())
        if entry.whole is not None:
            self.tail.append(entry)
            self._hand_out(start)

    def _hand_out(self, start: int) -> None:
        """Give every subscriber what is new from `start` on: the same bytes to all who are up to date and whose
        connection has room. The others come for it."""
        self.tail.trim()
        end = self.tail.end
        pieces = {
            deltas: self._piece(start, deltas=deltas)
            for deltas, wanted in ((True, self.has_deltas), (False, self.has_wholes))
            if wanted and start >= self.tail.first
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
        frames = self.tail.frames(start, deltas=deltas)
        piece = frames[0] if len(frames) == 1 else b"".join(frames)
        return piece if len(piece) <= CHUNK_BYTES else None

    def _forget_whole(self, key: str) -> None:
        """A durable state follows: what is still unsent of the growth before it is superseded."""
        timer = self._due.pop(key, None)
        if timer is not None:
            timer.cancel()
        self.tail.drop_whole(self._shown_whole.pop(key, (0.0, None))[1])
