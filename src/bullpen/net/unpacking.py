"""Unpacks what came packed, without ever holding more of it than is wanted.

A few kilobytes can unpack to gigabytes. So every step says how much it may give, and the whole may be neither
larger than the limit nor a hundred times what was sent.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from bullpen.errors import ToolFailed

ACCEPTED = b"gzip, deflate"
STEP_BYTES = 64 * 1024
MAX_RATIO = 100
FREE_BYTES = 256 * 1024
"""So much may come of however little: a short page of one repeated line is no attack."""

_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class PackedWrongly(ToolFailed):
    """What came cannot be unpacked, or must not be."""


class Unpacker:
    """One body. `take` gives what a piece of it unpacks to, in steps; `finish` says whether it was whole."""

    def __init__(self, encoding: str, *, max_bytes: int) -> None:
        self.size = 0
        self._sent = 0
        self._max = max_bytes
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise PackedWrongly(f"The answer is packed as {self._encoding[:40]!r}, which was not asked for.")
        self._inflate = zlib.decompressobj(_GZIP_OR_ZLIB) if self._is_packed else None

    @property
    def _is_packed(self) -> bool:
        return self._encoding not in ("", "identity")

    def take(self, piece: bytes) -> Iterator[bytes]:
        self._sent += len(piece)
        if self._inflate is None:
            yield self._counted(piece)
            return
        rest, inflate = piece, self._inflate
        while rest and not inflate.eof:
            unpacked, inflate = self._unpack(rest, inflate)
            rest = inflate.unconsumed_tail
            if unpacked:
                yield self._counted(unpacked)

    def finish(self) -> None:
        if self._inflate is not None and self._sent and not self._inflate.eof:
            raise PackedWrongly("The answer broke off in the middle.")

    def _unpack(self, rest: bytes, inflate: zlib._Decompress) -> tuple[bytes, zlib._Decompress]:
        try:
            return inflate.decompress(rest, STEP_BYTES), inflate
        except zlib.error:
            if self._encoding != "deflate" or self.size or self._sent != len(rest):
                raise PackedWrongly("The answer is not packed as it says.") from None
        # Some servers leave out the frame that belongs around it.
        self._inflate = bare = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            return bare.decompress(rest, STEP_BYTES), bare
        except zlib.error:
            raise PackedWrongly("The answer is not packed as it says.") from None

    def _counted(self, unpacked: bytes) -> bytes:
        self.size += len(unpacked)
        if self.size > self._max:
            raise PackedWrongly(f"The answer is larger than {self._max} bytes; nothing of it was kept.")
        if self._is_packed and self.size > FREE_BYTES and self.size > self._sent * MAX_RATIO:
            raise PackedWrongly(
                f"The answer unpacks to more than {MAX_RATIO} times its size; nothing of it was kept."
            )
        return unpacked
