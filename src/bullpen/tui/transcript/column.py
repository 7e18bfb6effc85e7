"""Where each item of a long column stands, when many of them have only been guessed at.

Heights are kept in a Fenwick tree: a guess that is replaced, an item that grows and the question which item stands at a row
cost the logarithm of the length, so that the ten-thousandth message is as cheap as the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """A row of an item, by their numbers."""

    item: int
    row: int


class Column:
    """The heights of items, one below the other."""

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._heights: list[int] = []
        self._sums: list[int] = []
        self._total = 0
        self.reset(heights)

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    @property
    def total(self) -> int:
        """The rows of all of them."""
        return self._total

    def reset(self, heights: Iterable[int]) -> None:
        """Have these heights and no others."""
        self._heights = list(heights)
        self._total = sum(self._heights)
        sums = list(self._heights)
        for position in range(1, len(sums) + 1):
            above = position + (position & -position)
            if above <= len(sums):
                sums[above - 1] += sums[position - 1]
        self._sums = sums

    def set(self, index: int, height: int) -> None:
        """Give an item another height."""
        growth = height - self._heights[index]
        if not growth:
            return
        self._heights[index] = height
        self._total += growth
        position = index + 1
        while position <= len(self._sums):
            self._sums[position - 1] += growth
            position += position & -position

    def splice(self, start: int, removed: int, heights: Sequence[int]) -> None:
        """Put others in the place of some items. At the end this is cheap; in the middle all is counted anew."""
        if start + removed < len(self._heights):
            self.reset((*self._heights[:start], *heights, *self._heights[start + removed :]))
            return
        for _ in range(removed):
            self._total -= self._heights.pop()
            self._sums.pop()
        for height in heights:
            self._append(height)

    def top(self, index: int) -> int:
        """The row at which an item begins; for the index behind the last one, the end."""
        found = 0
        while index > 0:
            found += self._sums[index - 1]
            index -= index & -index
        return found

    def at(self, y: int) -> Place:
        """Which item stands at a row. Before the first and behind the last one it is the nearest row there is."""
        if not self._total:
            return Place(0, 0)
        y = min(max(y, 0), self._total - 1)
        index, rest = 0, y
        step = 1 << len(self._heights).bit_length()
        while step:
            following = index + step
            if following <= len(self._heights) and self._sums[following - 1] <= rest:
                index = following
                rest -= self._sums[following - 1]
            step >>= 1
        return Place(index, rest)

    def y(self, place: Place) -> int:
        """The row of a place; one below the end of its item is taken for its last."""
        if not self._heights:
            return 0
        index = min(place.item, len(self._heights) - 1)
        return self.top(index) + min(place.row, max(self._heights[index] - 1, 0))

    def _append(self, height: int) -> None:
        self._heights.append(height)
        self._total += height
        position = len(self._heights)
        # The new node spans the items back to where its lowest set bit says.
        self._sums.append(self._total - self._span_top(position))

    def _span_top(self, position: int) -> int:
        """The row at which the span of a node of the tree begins."""
        return self.top(position - (position & -position))
