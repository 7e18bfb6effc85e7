"""The recent past of a feed, bounded in bytes and entries."""

from __future__ import annotations

from collections import deque

TAIL_BYTES = 512 << 10
"""How much of the recent past is kept in memory per workspace: enough for a slow second of a fast run."""

TAIL_ENTRIES = 8192
ENTRY_BYTES = 120
"""What an entry costs beside its frames, roughly."""


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

    def form(self, *, deltas: bool) -> bytes | None:
        """The frame for those who follow by deltas, or for the others; None when it is not for them."""
        return self.delta if deltas else self.whole


class Tail:
    """Entries by a running index; the oldest go."""

    def __init__(self) -> None:
        self.first = 0
        self.size = 0
        self._entries: deque[Entry] = deque()

    @property
    def end(self) -> int:
        """The index that the next entry will have."""
        return self.first + len(self._entries)

    def __getitem__(self, index: int) -> Entry:
        return self._entries[index - self.first]

    def append(self, entry: Entry) -> None:
        entry.index = self.end
        shared = entry.delta is entry.whole
        entry.size = len(entry.whole or b"") + (0 if shared else len(entry.delta or b"")) + ENTRY_BYTES
        self._entries.append(entry)
        self.size += entry.size

    def drop_whole(self, entry: Entry | None) -> None:
        """Something newer has taken this entry's place for those who want whole messages."""
        if entry is None or entry.whole is None:
            return
        if entry.index >= self.first:
            entry.size -= len(entry.whole)
            self.size -= len(entry.whole)
        entry.whole = None

    def trim(self) -> None:
        while len(self._entries) > 1 and (self.size > TAIL_BYTES or len(self._entries) > TAIL_ENTRIES):
            self.size -= self._entries.popleft().size
            self.first += 1

    def forget(self) -> None:
        """Everything, and leave a hole: nobody's place is valid any more."""
        self.first = self.end + 1
        self.size = 0
        self._entries.clear()

    def frames(self, start: int, *, deltas: bool) -> list[bytes]:
        """What there is from an index on, in one form."""
        entries = (self[index] for index in range(start, self.end))
        return [frame for entry in entries if (frame := entry.form(deltas=deltas)) is not None]
