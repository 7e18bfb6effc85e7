"""What is asked of a web server and what it answers, in words that need no HTTP client: whoever speaks of the web does not load one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from bullpen.errors import ToolFailed
from bullpen.net.urls import Url

TIME_S = 30.0
MAX_BYTES = 5 * 1024 * 1024

Take = Callable[[bytes], Awaitable[None]]
"""Gets the answer piece by piece, unpacked."""

Moved = Callable[[Url], Awaitable[None]]
"""Told of a redirect to another place before anything is sent there; raises to stay away."""


class FetchFailed(ToolFailed):
    """There is no usable answer. `status` is the server's, 0 when there was none."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Limits(msgspec.Struct, frozen=True):
    """`time_s` is for the whole of it, redirects included; waiting for a person does not count."""

    time_s: float = TIME_S
    max_bytes: int = MAX_BYTES


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """`headers` and `body` go to this place and to no other. `accept` are the answers that have something to read."""

    url: Url
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes = b""
    accept: tuple[int, ...] = (200,)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a fetch: whose answer it was after all redirects, and what it says of itself."""

    url: Url
    status: int
    content_type: str
    size: int
