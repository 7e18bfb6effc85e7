"""Growing text: gathered for a moment, stored as chunks, and only then shown.

One tick writes the new text of all sessions in one transaction. It comes every 33 ms while messages grow,
every 10 ms while somebody follows by deltas, and at once when text comes slowly. Each chunk checks that
its turn is still active in the transaction that stores it, so what a model says after a cancel was
answered is neither stored nor shown.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import NamedTuple

from bullpen.broker.facts import Fact
from bullpen.schema.events import MessageDelta
from bullpen.schema.message import Message, decode_message
from bullpen.schema.wire import encode
from bullpen.store import messages, prompts
from bullpen.store.database import Database
from bullpen.store.tx import Tx
from bullpen.system.clock import Clock
from bullpen.system.failpoints import hit

log = logging.getLogger("bullpen.store")

DELTA_TICK_S = 0.010
"""One delta per token costs too many bytes and writes, 33 ms too much latency."""

TICK_S = 0.033

RETRY_S = 0.5
"""A store that refused is left alone for this long."""


class OpenMessage:
    """A message while it grows. `pending` has not been stored yet; what was stored and shown is `Live`."""

    def __init__(self, workspace: str, message: Message, turn: int) -> None:
        self.workspace = workspace
        self.turn = turn
        self.id = message.id
        self.session_id = message.session_id
        self.pending: list[tuple[str, str]] = []
        self.written_whole = 0
        """How often it was taken to be written whole: text gathered before that needs no second try."""
        self._body = encode(message)
        self._base: Message | None = None
        self._shown: list[tuple[str, str, int]] = []
        self._lengths: dict[str, int] = {}

    def settle(self, body: bytes) -> None:
        self._body = body
        self._base = None
        self._shown = []

    def grow(self, part: str, text: str) -> bytes:
        hit("text-grown")
        offset = self._length(part)
        self._lengths[part] = offset + len(text)
        self._shown.append((part, text, 0))
        return encode(
            MessageDelta(
                session_id=self.session_id,
                message_id=self.id,
                part="text" if part == "text" else "reasoning",
                offset=offset,
                text=text,
            )
        )

    def whole(self) -> bytes:
        return encode(messages.grown(self._settled(), self._shown)) if self._shown else self._body

    def _settled(self) -> Message:
        if self._base is None:
            self._base = decode_message(self._body)
            self._lengths = {"text": len(self._base.text), "reasoning": len(self._base.reasoning)}
        return self._base

    def _length(self, part: str) -> int:
        self._settled()
        return self._lengths[part]


class Gathered(NamedTuple):
    """What a tick writes of one message, and how often that had been written whole by then."""

    message: OpenMessage
    pieces: list[tuple[str, str]]
    written_whole: int


class Growth:
    """Gathers what grows and writes it tick by tick. Lives on the event loop."""

    def __init__(self, database: Database, clock: Clock, followed: Callable[[str], bool]) -> None:
        self._database = database
        self._clock = clock
        self._followed = followed
        self._dirty: dict[str, OpenMessage] = {}
        self._timer: asyncio.Handle | None = None
        self._writing = False
        self._closed = False
        self._last_tick = 0.0

    def add(self, message: OpenMessage, part: str, text: str) -> None:
        message.pending.append((part, text))
        self._dirty[message.id] = message
        self._schedule()

    def take_back(self, message: OpenMessage) -> list[tuple[str, str]]:
        """What is pending is about to be written as part of the whole message: gives it back, to be shown with it."""
        pieces = _joined(message.pending)
        message.pending = []
        message.written_whole += 1
        self._dirty.pop(message.id, None)
        return pieces

    def close(self) -> None:
        """The database is about to close: what was not stored by now never will be, and is not tried again."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        if self._timer is not None or self._writing or self._closed or not self._dirty:
            return
        followed = any(self._followed(m.workspace) for m in self._dirty.values())
        wait = self._last_tick + (DELTA_TICK_S if followed else TICK_S) - self._clock.monotonic()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(wait, self._tick) if wait > 0 else loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._last_tick = self._clock.monotonic()
        gathered = [Gathered(m, _joined(m.pending), m.written_whole) for m in self._dirty.values()]
        for message, _, _ in gathered:
            message.pending = []
        self._dirty.clear()
        if not gathered:
            return
        self._writing = True
        submitted = self._database.submit(lambda tx: _store(tx, gathered), durable=False)
        submitted.add_done_callback(functools.partial(self._written, gathered))

    def _written(self, gathered: list[Gathered], done: asyncio.Future[None]) -> None:
        self._writing = False
        if not done.cancelled() and (error := done.exception()) is not None:
            log.error("growing text was not stored yet: %s", error)
            self._last_tick = self._clock.monotonic() + RETRY_S
            for message, pieces, written_whole in gathered:
                if message.written_whole == written_whole:
                    message.pending[:0] = pieces
                    self._dirty[message.id] = message
        self._schedule()


async def _store(tx: Tx, gathered: list[Gathered]) -> None:
    for message, pieces, _ in gathered:
        if not await prompts.is_active(tx, message.workspace, message.turn):
            continue
        for part, text in pieces:
            await messages.append_chunk(tx, message.id, part, text)
        show(tx, message, pieces)


def show(tx: Tx, message: OpenMessage, pieces: list[tuple[str, str]]) -> None:
    """Let everybody see how the message grew; the text is stored by whoever calls this."""
    for growth in pieces:
        tx.publish(
            Fact(message.workspace, "message", "updated", message.id, b"", live=message, growth=growth)
        )


def _joined(pieces: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Neighbours of the same part as one."""
    joined: list[tuple[str, list[str]]] = []
    for part, text in pieces:
        if joined and joined[-1][0] == part:
            joined[-1][1].append(text)
        else:
            joined.append((part, [text]))
    return [(part, "".join(texts)) for part, texts in joined]
