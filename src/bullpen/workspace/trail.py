"""Where a stream begins: what a client missed, what is still to be answered, what is growing.

A `Trail` is one client's way along a workspace's events. It first hands out what lies between the client's
cursor and now, read from the log, and then follows the feed. When the feed has moved on faster than the
client read, it goes back to the log; when the log has forgotten, it says `resync`. There is never a gap
that the client is not told about.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator

from bullpen.broker.feed import Feed
from bullpen.broker.subscription import Subscription
from bullpen.schema.events import Resync, frame
from bullpen.schema.wire import encode
from bullpen.store import asks, log
from bullpen.store.asks import Ask
from bullpen.store.log import Page
from bullpen.store.store import Store
from bullpen.store.tx import Tx

_ASK_KINDS = {"permission": "permission_request", "question": "question_batch_request"}


class Trail:
    """Made when the stream opens; `begin`, then `follow` again and again."""

    def __init__(self, store: Store, workspace: str, feed: Feed, *, deltas: bool, after: str | None) -> None:
        self._store = store
        self._workspace = workspace
        self._feed = feed
        self.subscription: Subscription = feed.subscribe(deltas=deltas)
        self.cursor = feed.cursor
        self._epoch = feed.epoch
        """What the client has been told so far belongs to this."""
        self._after = after

    def close(self) -> None:
        self._feed.unsubscribe(self.subscription)

    async def begin(self) -> AsyncIterator[bytes]:
        """Everything up to now, in pieces."""
        head = self._feed.head
        known = _parse(self._after, self._feed.epoch) if self._after is not None else head
        if known is None or known > head:
            known = head
            yield self._resync("the cursor is not one of this log", known)
        async for piece in self._catch_up(known, show_asks=True, show_open=self._after is not None):
            yield piece

    async def follow(self) -> AsyncIterator[bytes]:
        """What is new; to be called after `subscription.wake`."""
        while True:
            while self.subscription.lost:
                self._store.tally["catch_ups"] += 1
                async for piece in self._catch_up(self.subscription.seq, show_asks=False, show_open=True):
                    yield piece
            piece = self.subscription.take()
            if not piece:
                return
            yield piece

    async def _catch_up(self, after: int, *, show_asks: bool, show_open: bool) -> AsyncIterator[bytes]:
        """From the log up to its head, then what is open; leaves the subscription at the present."""
        first = True
        while True:
            page, pending = await self._store.read(functools.partial(self._read, after=after))
            if page.epoch != self._feed.epoch:
                continue  # It was read just before the log went back.
            if page.epoch != self._epoch or after + 1 < page.tail:
                why = (
                    "events older than the log keeps were missed"
                    if page.epoch == self._epoch
                    else "the disk failed, and the log lost events"
                )
                self._epoch = page.epoch
                after, show_asks, first = page.head, True, True
                yield self._resync(why, after)
                continue
            if first and show_asks:
                shown = b"".join(self._reshown(ask, after) for ask in pending if ask.seq <= after)
                if shown:
                    yield shown
            first = False
            if page.events:
                yield b"".join(self._frame(e.seq, e.kind, e.action, e.body) for e in page.events)
            after = page.last
            if not page.complete:
                continue
            await self._published(page.head)
            if self._feed.epoch != self._epoch:
                continue
            joined = self.subscription.join(page.head, show_open=show_open or self.subscription.deltas)
            if joined is not None:
                break
        if joined:
            yield b"".join(joined)

    async def _published(self, head: int) -> None:
        """What was read is committed; the feed hears of it a moment later."""
        while self._feed.head < head and self._feed.epoch == self._epoch and not self.subscription.closed:
            self.subscription.wake.clear()
            await self.subscription.wake.wait()

    async def _read(self, tx: Tx, *, after: int) -> tuple[Page, list[Ask]]:
        return await log.read_page(tx, self._workspace, after), await asks.all_open(tx, self._workspace)

    def _reshown(self, ask: Ask, seq: int) -> bytes:
        return self._feed.single(_ASK_KINDS[ask.kind], "created", ask.body, seq)

    def _frame(self, seq: int, kind: str, action: str, body: bytes) -> bytes:
        return frame(f"{self._feed.epoch}-{seq}", kind, action, body)

    def _resync(self, reason: str, seq: int) -> bytes:
        """What follows on the stream comes after `seq`."""
        self._store.tally["resyncs"] += 1
        body = encode(Resync(reason=reason, cursor=f"{self._feed.epoch}-{seq}"))
        return self._feed.single("resync", "created", body, seq)


def _parse(cursor: str, epoch: str) -> int | None:
    """The durable number a cursor stands for, or None when it is none of this log's."""
    head, _, number = cursor.strip().rpartition("-")
    digits = number.partition(".")[0]
    return int(digits) if head == epoch and digits.isdecimal() and len(digits) < 19 else None
