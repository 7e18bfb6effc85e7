"""The event stream as a client reads it: bytes to frames, frames to events, and when to try again.

A stream that is silent for longer than three heartbeats is taken for dead. Kinds of events that this
client does not know are skipped: a newer server may send them.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import httpx2
import msgspec

from bullpen.client.http import CURSOR_HEADER, Connection
from bullpen.errors import BullpenError, ServerUnreachable
from bullpen.schema.events import CLASSES, Action, Event

log = logging.getLogger(__name__)

SILENCE_S = 45.0
"""Three heartbeats of 15 s: one may be late, two may be lost, three mean that nobody is there."""

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 10.0
"""Between attempts: short enough not to be noticed after a restart, long enough to spare a dead server."""

LARGEST_FRAME_BYTES = 256 * 1024 * 1024
"""Past every message there can be; a server that sends more is broken, and memory is not."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as it stood on the stream."""

    id: str
    data: bytes


class FrameParser:
    """Cuts a byte stream into frames, however the network cut it before. Comments only prove life."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._id = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Frame]:
        """Take the next bytes and hand back the frames they complete."""
        self._rest.append(chunk)
        self._rest_bytes += len(chunk)
        if self._rest_bytes > LARGEST_FRAME_BYTES:
            raise BullpenError("the event stream holds a line without an end")
        if b"\n" not in chunk:
            return []
        whole, _, rest = b"".join(self._rest).rpartition(b"\n")
        self._rest, self._rest_bytes = [rest], len(rest)
        return [frame for line in whole.split(b"\n") if (frame := self._line(line.removesuffix(b"\r")))]

    def _line(self, line: bytes) -> Frame | None:
        if not line:
            return self._end()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"id":
            self._id = value
        return None

    def _end(self) -> Frame | None:
        data, event_id = self._data, self._id
        self._data, self._id = [], b""
        return Frame(event_id.decode("ascii", "replace"), b"\n".join(data)) if data else None


class _Inner(msgspec.Struct):
    type: Action
    payload: msgspec.Raw


class _Envelope(msgspec.Struct):
    type: str
    payload: _Inner


class _Kind(msgspec.Struct):
    type: str


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_kind = msgspec.json.Decoder(_Kind).decode
_decoders = {kind: msgspec.json.Decoder(cls) for kind, cls in CLASSES.items()}


def decode_event(frame: Frame) -> Event | None:
    """The event of a frame, or None when this client cannot make sense of it."""
    try:
        kind = _decode_kind(frame.data).type
        decoder = _decoders.get(kind)
        if decoder is None:
            return None
        inner = _decode_envelope(frame.data).payload
        payload = decoder.decode(inner.payload)
        return Event(id=frame.id, kind=kind, action=inner.type, payload=payload)  # type: ignore[arg-type]  # by kind
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        log.warning("skipped an event that does not fit: %s (id %s)", exc, frame.id)
        return None


_ID = re.compile(r"(?P<epoch>[^.]+)-(?P<seq>\d+)(?P<volatile>\..+)?")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event stands in the log. `volatile` ones stand behind `seq` and are no place to go on from."""

    epoch: str
    seq: int
    volatile: bool

    @classmethod
    def of(cls, event_id: str) -> Place | None:
        """The place an id names, or None when it is not one of ours."""
        found = _ID.fullmatch(event_id)
        return cls(found["epoch"], int(found["seq"]), bool(found["volatile"])) if found else None

    def is_within(self, other: Place | None) -> bool:
        """Whether what happened here is certainly part of an answer that holds everything up to `other`."""
        if other is None or self.epoch != other.epoch:
            return False
        return self.seq < other.seq or (self.seq == other.seq and not self.volatile)


class Incoming:
    """An open stream. `cursor` is where it began; iterate it for the events until it ends.

    `heard` turns true with the first byte, be it a comment; `heard_at` is when the last one came, by the loop's clock.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self.cursor: str = response.headers.get(CURSOR_HEADER, "")
        self.heard = False
        self.heard_at = anyio.current_time()
        self._response = response

    async def events(self) -> AsyncIterator[Event]:
        """Every event that makes sense to this client, until the server ends the stream.

        Raises `ServerUnreachable` when it breaks or falls silent.
        """
        parser = FrameParser()
        try:
            async for chunk in self._response.aiter_raw():
                self.heard = True
                self.heard_at = anyio.current_time()
                for frame in parser.feed(chunk):
                    if event := decode_event(frame):
                        yield event
        except httpx2.ReadTimeout as exc:
            raise ServerUnreachable("the server has fallen silent") from exc
        except (httpx2.RequestError, OSError) as exc:
            raise ServerUnreachable(f"the event stream broke: {exc or type(exc).__name__}") from exc


@asynccontextmanager
async def open_stream(
    server: Connection, workspace_id: str, client_id: str, *, after: str = "", silence_s: float = SILENCE_S
) -> AsyncIterator[Incoming]:
    """Open the stream of a workspace behind the event `after`, or from now on.

    Raises `WorkspaceNotFound` when the workspace is not open, and what else the server answers.
    """
    headers: Mapping[str, str] = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
    if after:
        headers = {**headers, "Last-Event-ID": after}
    async with server.stream(
        f"/workspaces/{workspace_id}/events",
        params={"client_id": client_id, "deltas": "1"},
        headers=headers,
        silence_s=silence_s,
    ) as response:
        yield Incoming(response)


class Backoff:
    """How long to wait before the next attempt: 250 ms, doubling to 10 s, each with up to a quarter taken off.

    The spread keeps a room full of clients from coming back in the same instant.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._next_s = FIRST_PAUSE_S

    def reset(self) -> None:
        self._next_s = FIRST_PAUSE_S

    def pause_s(self) -> float:
        """The next pause; each call lengthens the one after it."""
        pause = self._next_s
        self._next_s = min(pause * 2, LONGEST_PAUSE_S)
        return pause * (1 - self._rng.random() / 4)
