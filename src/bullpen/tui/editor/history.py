"""Going through earlier prompts. What was typed is never lost on the way: neither the draft nor what was changed in a prompt."""

from __future__ import annotations

from collections.abc import Iterable


class History:
    """A walk through what was sent before, the latest first. It begins with `earlier` and ends with `leave`."""

    def __init__(self) -> None:
        self._entries: list[str] = []
        self._place: int | None = None
        self._draft = ""
        self._changed: dict[int, str] = {}

    @property
    def is_walking(self) -> bool:
        return self._place is not None

    def earlier(self, now: str, entries: Iterable[str]) -> str | None:
        """One prompt further back, or None where there is none. `now` is what stands in the editor; `entries` are what was
        sent, the oldest first, and count only at the beginning of a walk."""
        if self._place is None:
            self._entries = unique(entries)
            if not self._entries:
                return None
            self._draft, self._place, self._changed = now, len(self._entries) - 1, {}
        elif self._place == 0:
            return None
        else:
            self._keep(now)
            self._place -= 1
        return self._at(self._place)

    def later(self, now: str) -> str | None:
        """One prompt further on, at last the draft; None when there is no walk."""
        if self._place is None:
            return None
        self._keep(now)
        self._place += 1
        if self._place == len(self._entries):
            return self.leave()
        return self._at(self._place)

    def leave(self) -> str:
        """End the walk; the draft it began with."""
        self._place = None
        return self._draft

    def _keep(self, now: str) -> None:
        if self._place is not None and now != self._entries[self._place]:
            self._changed[self._place] = now

    def _at(self, place: int) -> str:
        return self._changed.get(place, self._entries[place])


def unique(entries: Iterable[str]) -> list[str]:
    """Each once, where it came last; nothing empty."""
    latest_first = dict.fromkeys(reversed([entry for entry in entries if entry.strip()]))
    return list(reversed(latest_first))
