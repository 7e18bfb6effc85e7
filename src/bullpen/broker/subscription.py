"""One reader of a feed: a position, never a queue, so a slow one costs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bullpen.broker.feed import Feed

CHUNK_BYTES = 64 * 1024
"""The most that is handed out at once, so that one connection never holds more than this unsent."""


class Subscription:
    """A position in a feed. Owned by one stream, which waits on `wake` and then calls `take`.

    While the stream `waits` with nothing left to take, the feed hands new frames straight to its connection
    (`write_now`); a stream is woken only when its connection has no room."""

    def __init__(self, feed: Feed, *, deltas: bool) -> None:
        self.feed = feed
        self.deltas = deltas
        self.position = feed.tail.end
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
        return self.position < self.feed.tail.first

    def take(self) -> bytes:
        """What is new, up to `CHUNK_BYTES` or one frame; empty when nothing is. Not to be called when lost."""
        frames: list[bytes] = []
        size = 0
        feed = self.feed
        while self.position < feed.tail.end:
            entry = feed.tail[self.position]
            piece = entry.form(deltas=self.deltas)
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
        for index in range(max(self.position, feed.tail.first), feed.tail.end):
            entry = feed.tail[index]
            if entry.growth:
                show_open = True
                continue
            if entry.seq < seq or (entry.seq == seq and not entry.volatile):
                continue
            if not entry.volatile:
                if entry.seq != durable + 1:
                    return None
                durable = entry.seq
            piece = entry.form(deltas=self.deltas)
            if piece is not None:
                frames.append(piece)
        if durable < feed.head:
            return None
        self.position = feed.tail.end
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
