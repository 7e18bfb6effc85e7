"""Which items are drawn, and where they stand: a column of items of which only those near the window are ever rendered.

item:    guessed ──comes near the window──▶ drawn (kept, the oldest let go) ──moved──▶ stale ──▶ drawn
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from textual.strip import Strip

from bullpen.tui.transcript.column import Column, Place
from bullpen.tui.transcript.items import Change, Item

KEPT_ROWS = 6_000
"""Rows of items that were drawn and may be looked at again: some hundred screens."""


class _Drawn(NamedTuple):
    item: Item
    strips: list[Strip]


class Window:
    """The items, their heights, and the strips of those that were drawn lately."""

    def __init__(self, draw: Callable[[Item], list[Strip]], guess: Callable[[Item], int]) -> None:
        self.items: list[Item] = []
        self.column = Column()
        self._draw = draw
        self._guess = guess
        self._drawn: OrderedDict[str, _Drawn] = OrderedDict()
        self._rows = 0
        self._measured: set[str] = set()

    def load(self, items: list[Item]) -> None:
        """Show these. The list is shared: `change` tells what became of it."""
        self.items = items
        self.forget()

    def forget(self) -> None:
        """Nothing that was drawn is right any more: another width, other colours."""
        self._drawn.clear()
        self._rows = 0
        self._measured.clear()
        self.column.reset(map(self._guess, self.items))

    def redraw(self, anchor: Place) -> Place:
        """Forget what was drawn, and answer where a place is then: as far down its item as it was."""
        if not self.items or anchor.item >= len(self.items):
            self.forget()
            return anchor
        before = max(self.column[anchor.item], 1)
        self.forget()
        return Place(anchor.item, anchor.row * len(self.strips(anchor.item)) // before)

    def change(self, change: Change) -> None:
        """Some items were replaced in the list. Those that are as they were stay drawn."""
        changed = self.items[change.start : change.start + change.added]
        for item in changed:
            if (kept := self._drawn.get(item.key)) is not None and kept.item != item:
                self.stale(item.key)
        if change.added != change.removed:
            heights = [
                len(self._drawn[item.key].strips) if item.key in self._drawn else self._guess(item)
                for item in changed
            ]
            self._measured.difference_update(item.key for item in changed if item.key not in self._drawn)
            self.column.splice(change.start, change.removed, heights)

    def stale(self, key: str) -> None:
        """An item has to be drawn anew; until then it keeps its height."""
        if (gone := self._drawn.pop(key, None)) is not None:
            self._rows -= len(gone.strips)

    def strips(self, index: int) -> list[Strip]:
        """The rows of an item, drawn when that has not been done."""
        item = self.items[index]
        if (kept := self._drawn.get(item.key)) is not None:
            return kept.strips
        found = self._draw(item)
        self._drawn[item.key] = _Drawn(item, found)
        self._rows += len(found)
        self._measured.add(item.key)
        self.column.set(index, len(found))
        while self._rows > KEPT_ROWS and len(self._drawn) > 1:
            _, gone = self._drawn.popitem(last=False)
            self._rows -= len(gone.strips)
        return found

    def settle(self, anchor: Place, height: int) -> Place:
        """Draw what a window with this place at its top shows, and half a window on both sides. The answer is the same place when all of
        that has its true height: of an item that was only guessed at, the distance to its end counts."""
        if not self.items:
            return Place(0, 0)
        index = min(anchor.item, len(self.items) - 1)
        row = anchor.row
        if row and self.items[index].key not in self._measured:
            below = max(self.column[index] - row, 1)
            row = max(len(self.strips(index)) - below, 0)
        row = min(row, max(len(self.strips(index)) - 1, 0))
        self._fill(index + 1, height - (self.column[index] - row) + height // 2, 1)
        self._fill(index - 1, height // 2, -1)
        return Place(index, row)

    def settle_end(self, height: int) -> int:
        """Draw what the window shows at the end of all; the answer is the row at its top."""
        self._fill(len(self.items) - 1, height, -1)
        return max(self.column.total - height, 0)

    def _fill(self, index: int, rows: int, step: int) -> None:
        while rows > 0 and 0 <= index < len(self.items):
            rows -= len(self.strips(index))
            index += step
