"""Messages on a stream, as real servers send them."""

from __future__ import annotations

import asyncio

from bullpen.lsp.framing import encode, read_message


async def messages(content: bytes, *, limit: int = 1000) -> list[object]:
    stream = asyncio.StreamReader(limit=limit)
    stream.feed_data(content)
    stream.feed_eof()
    found: list[object] = []
    while (message := await read_message(stream)) is not None:
        found.append(message)
    return found


async def test_greetings_odd_headers_and_line_ends_are_overlooked() -> None:
    content = (
        b"Starting up ...\n\n"
        b'content-type: x\r\ncontent-length: 8\r\n\r\n{"a": 1}'
        b'Content-Length:8\nOther: y\n\n{"b": 2}'
    )
    assert await messages(content) == [{"a": 1}, {"b": 2}]


async def test_a_message_may_be_longer_than_a_line() -> None:
    text = {"text": "é" * 5000}
    assert await messages(encode(text)) == [text]


async def test_a_message_that_breaks_off_is_the_end() -> None:
    assert await messages(encode({"a": 1}) + b"Content-Length: 100\r\n\r\n{") == [{"a": 1}]
