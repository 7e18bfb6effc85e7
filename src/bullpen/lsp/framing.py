"""JSON-RPC messages on a stream: a header that says how long the body is, and the body.

Lenient where real servers are odd: text before the first header, unknown headers, lower case. Strict where memory
is at stake: a header or a body past its limit is a failure, and so is a body that is no JSON object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from bullpen.errors import LanguageServerFailed

MAX_BODY_BYTES = 32 * 1024 * 1024
"""One message. The largest that honest servers send are lists of symbols and edits, some megabytes."""

MAX_NOISE_BYTES = 64 * 1024
"""What may come before a header: some servers greet on standard output before they behave."""

Json = dict[str, Any]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def encode(message: Mapping[str, Any]) -> bytes:
    body = _encoder.encode(message)
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


async def read_message(stream: asyncio.StreamReader) -> Json | None:
    """The next message; None at the end of the stream. Raises `LanguageServerFailed` when it is none."""
    try:
        size = await _read_size(stream)
        if size is None:
            return None
        body = await stream.readexactly(size)
    except asyncio.IncompleteReadError:
        return None
    except ValueError:
        raise LanguageServerFailed("sent a header line without an end") from None
    try:
        message = _decoder.decode(body)
    except (ValueError, RecursionError):
        raise LanguageServerFailed("sent a message that is not JSON") from None
    if not isinstance(message, dict):
        raise LanguageServerFailed("sent a message that is not a JSON object")
    return message


async def _read_size(stream: asyncio.StreamReader) -> int | None:
    """Read a header up to its empty line."""
    size: int | None = None
    noise = 0
    while line := await stream.readline():
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            size = _number(value)
        elif size is not None and not line.strip():
            return size
        else:
            noise += len(line)
            if noise > MAX_NOISE_BYTES:
                raise LanguageServerFailed("does not speak the language server protocol on standard output")
    return None


def _number(value: bytes) -> int:
    try:
        size = int(value)
    except ValueError:
        raise LanguageServerFailed("sent a header without a length") from None
    if not 0 <= size <= MAX_BODY_BYTES:
        raise LanguageServerFailed(f"announced a message of {size} bytes; the limit is {MAX_BODY_BYTES}")
    return size
