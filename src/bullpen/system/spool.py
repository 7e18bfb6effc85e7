"""What is kept of a command's output: a fixed amount, whatever it writes.

A `Spool` is the beginning and the end of one stream, for the model; a `Beginning` stops there. A `Tape` is both streams together as they came,
for whoever follows or pages through them by offset; most commands write little, so it begins in memory and goes to a
file without a name when it grows.
"""

from __future__ import annotations

import os
import tempfile
from typing import NamedTuple

import anyio

HALF_BYTES = 512 * 1024
"""How much of the beginning and of the end of each stream is kept: far more than a model is shown."""

HEAD_BYTES = 4 * 1024 * 1024
RING_BYTES = 12 * 1024 * 1024
"""Of a tape the beginning stays, and the end goes round in the rest: 16 MiB in all."""

MEMORY_BYTES = 256 * 1024


class Spool:
    """Head and tail of a stream of bytes."""

    def __init__(self, half_bytes: int = HALF_BYTES) -> None:
        self._half = half_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def text(self) -> str:
        """What was kept; a line in the middle says how much was not."""
        tail = self._tail[-self._half :]
        dropped = self.total - len(self._head) - len(tail)
        if dropped == 0:
            return (self._head + tail).decode("utf-8", "replace")
        note = f"\n\n… {dropped} bytes dropped …\n\n"
        return self._head.decode("utf-8", "replace") + note + tail.decode("utf-8", "replace")


class Beginning(Spool):
    """Only the first bytes of a stream; `full` wakes whoever then has enough."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self._content = bytearray()
        self.full = anyio.Event()

    @property
    def content(self) -> bytes:
        return bytes(self._content)

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self._content += chunk[: self._half - len(self._content)]
        if self.total > self._half:
            self.full.set()


class Piece(NamedTuple):
    """Part of a tape. `offset` is where it begins, which is later than asked for where the tape has a hole."""

    offset: int
    text: str
    next_offset: int


class Tape:
    """Output by offset. What is neither in the head nor in the last RING_BYTES any more is a hole; so is what the disk did
    not take."""

    def __init__(self, head_bytes: int = HEAD_BYTES, ring_bytes: int = RING_BYTES) -> None:
        self._head, self._ring = head_bytes, ring_bytes
        self._head_end = head_bytes
        self._lost_until = head_bytes
        self._memory = bytearray()
        self._file = -1
        self._news: anyio.Event | None = None
        self.total = 0
        self.has_ended = False

    def add(self, chunk: bytes) -> None:
        if not chunk:
            return
        try:
            if self._file < 0 and self.total + len(chunk) > MEMORY_BYTES:
                self._move_to_file()
            if self._file < 0:
                self._memory += chunk
            else:
                self._write(self._file, self.total, chunk)
        except OSError:
            self._head_end = min(self._head_end, self.total)
            self._lost_until = self.total + len(chunk)
        self.total += len(chunk)
        self._tell()

    def end(self) -> None:
        """Nothing more is waited for; what a leftover writes is still taken."""
        self.has_ended = True
        self._tell()

    async def grown(self, offset: int) -> None:
        """Until there is something at the offset, or the command has ended."""
        while self.total <= offset and not self.has_ended:
            self._news = self._news or anyio.Event()
            await self._news.wait()

    def read(self, offset: int, limit: int) -> Piece:
        """At most `limit` bytes from the offset on, as text; characters are not cut in two unless they end there."""
        start = min(max(offset, 0), self.total)
        lost_until = max(self.total - self._ring, self._lost_until)
        if self._head_end <= start < lost_until:
            start = min(lost_until, self.total)
        stop = min(start + limit, self.total)
        if start < self._head_end < lost_until:
            stop = min(stop, self._head_end)
        found = self._read(start, stop)
        if not (self.has_ended and stop == self.total):
            found = found[: len(found) - _open_end(found)] or found
        return Piece(start, found.decode("utf-8", "replace"), start + len(found))

    def tail(self, limit: int) -> Piece:
        """The last bytes, from the beginning of a character on."""
        start = max(self.total - limit, 0)
        piece = self.read(start, limit)
        return piece._replace(text=piece.text.lstrip("�")) if start else piece

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    def _move_to_file(self) -> None:
        with tempfile.TemporaryFile(prefix="bullpen-output-") as file:
            self._write(file.fileno(), 0, bytes(self._memory))
            self._file = os.dup(file.fileno())
        self._memory = bytearray()

    def _write(self, file: int, at: int, chunk: bytes) -> None:
        while chunk:
            place, room = self._place(at)
            written = os.pwrite(file, chunk[:room], place)
            chunk = chunk[written:]
            at += written

    def _read(self, start: int, stop: int) -> bytes:
        if self._file < 0:
            return bytes(self._memory[start:stop])
        found = bytearray()
        while start < stop:
            place, room = self._place(start)
            piece = os.pread(self._file, min(room, stop - start), place)
            if not piece:
                break
            found += piece
            start += len(piece)
        return bytes(found)

    def _place(self, offset: int) -> tuple[int, int]:
        """Where in the file an offset lies, and how much fits there in one piece."""
        if offset < self._head:
            return offset, self._head - offset
        inside = (offset - self._head) % self._ring
        return self._head + inside, self._ring - inside


def _open_end(content: bytes) -> int:
    """How many bytes at the end begin a character that is not complete."""
    for back in range(1, min(4, len(content)) + 1):
        byte = content[-back]
        if byte & 0xC0 != 0x80:
            size = 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4 if byte >> 3 == 0b11110 else 1
            return back if size > back else 0
    return 0
