"""What happens, as readers get it: events, and news of the link, in one order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal

import anyio
import msgspec

from bullpen.errors import BullpenError
from bullpen.schema.events import Event, Resync

BUFFERED_UPDATES = 10_000
"""What a reader of updates may leave unread. When it is full the reader gets one `resync` instead."""


class LinkChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The link to the server went down or came back. `recreated`: the workspace had to be opened anew."""

    state: Literal["connected", "reconnecting"]
    reason: str = ""
    recreated: bool = False


Update = Event | LinkChanged


class Updates:
    """What happens from now on, in order: events, and news of the link. Iterate it once.

    A reader that falls `BUFFERED_UPDATES` behind loses them and gets one `resync` event in their place;
    the room itself is up to date all the time.
    """

    def __init__(self, failure: Callable[[], BullpenError | None]) -> None:
        self._failure = failure
        self._waiting: deque[Update] = deque()
        self._wake = anyio.Event()

    def __aiter__(self) -> Updates:
        return self

    async def __anext__(self) -> Update:
        while not self._waiting:
            if error := self._failure():
                raise error
            self._wake = anyio.Event()
            await self._wake.wait()
        return self._waiting.popleft()

    @property
    def unread(self) -> int:
        """How many this reader is behind."""
        return len(self._waiting)

    def put(self, update: Update) -> None:
        if len(self._waiting) >= BUFFERED_UPDATES:
            self._waiting.clear()
            update = Event(id="", kind="resync", action="created", payload=Resync(reason="reader too slow"))
        self._waiting.append(update)
        self._wake.set()

    def wake(self) -> None:
        """Have a waiting reader look whether the link has failed."""
        self._wake.set()
