"""One connection to a server: how it is made, what can be asked of it, and how it is noticed that it is gone.

All that the library raises is translated here, once, to `ToolServerFailed`.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import anyio
import anyio.to_thread

from bullpen import __version__
from bullpen.config.shape import McpServer
from bullpen.errors import ToolServerFailed, ToolServerNotStarted
from bullpen.mcp.child import Child
from bullpen.mcp.logins import LoginBook
from bullpen.mcp.remote import Remote

if TYPE_CHECKING:
    from mcp.client import Transport
    from mcp.client._transport import TransportStreams
    from mcp_types import CallToolResult, Prompt, Resource, ResourceTemplate, Tool

    from mcp import Client

Kind = Literal["tools", "prompts", "resources"]
KINDS: tuple[Kind, ...] = ("tools", "prompts", "resources")

T = TypeVar("T")

MAX_PAGES = 100
MAX_ITEMS = 2_000
"""A list may come in pages, but a server that never stops turning them is not followed."""


LISTEN_AGAIN_S = 10.0


class Line(Protocol):
    """How messages get to a server and back."""

    @property
    def needs_auth(self) -> bool:
        """Whether its last word was that somebody has to log in."""
        ...

    def streams(self) -> Transport: ...
    def story(self) -> str:
        """What is known about its end; empty when there is nothing to tell."""
        ...


def line_to(server: McpServer, *, root: Path, env: Mapping[str, str], logins: LoginBook) -> Child | Remote:
    """Raises `ToolServerNotStarted` when the configuration does not say how to reach the server."""
    if server.type == "stdio":
        if not server.command:
            raise ToolServerNotStarted("no command is configured")
        return Child(server.command, server.args, cwd=root, env={**env, **server.env})
    if not server.url:
        raise ToolServerNotStarted("no url is configured")
    return Remote(server, logins)


async def load_library() -> None:
    """Import what this room needs, which takes most of a second, without stopping the others."""
    await anyio.to_thread.run_sync(importlib.import_module, "mcp", abandon_on_cancel=True)


class Connection:
    """An open connection. Its requests may come from any task."""

    def __init__(self, client: Client, line: Line, lost: anyio.Event) -> None:
        self._client = client
        self._line = line
        self.lost = lost
        self.instructions = client.instructions or ""

    async def tools(self) -> list[Tool]:
        return await self._all(
            "tools", lambda cursor: self._client.list_tools(cursor=cursor), lambda page: page.tools
        )

    async def prompts(self) -> list[Prompt]:
        return await self._all(
            "prompts", lambda cursor: self._client.list_prompts(cursor=cursor), lambda page: page.prompts
        )

    async def resources(self) -> list[Resource]:
        return await self._all(
            "resources",
            lambda cursor: self._client.list_resources(cursor=cursor),
            lambda page: page.resources,
        )

    @property
    def has_resources(self) -> bool:
        return self._client.server_capabilities.resources is not None

    async def kept(self) -> tuple[list[Resource], list[ResourceTemplate]]:
        """What it keeps to be read. Servers without templates do not all say so in time."""
        resources = await self.resources()
        try:
            return resources, await self.templates()
        except ToolServerFailed as exc:
            if exc.is_lost:
                raise
            return resources, []

    async def templates(self) -> list[ResourceTemplate]:
        return await self._all(
            "resources",
            lambda cursor: self._client.list_resource_templates(cursor=cursor),
            lambda page: page.resource_templates,
        )

    async def ask(self, request: Callable[[Client], Awaitable[T]], *, timeout_s: float) -> T:
        """Raises `ToolServerFailed`. A cancelled or late request is withdrawn at the server."""
        try:
            with _translated(), anyio.fail_after(timeout_s):
                return await request(self._client)
        except ToolServerFailed as exc:
            if not exc.is_lost and not self._line.needs_auth:
                raise
            self.lost.set()
            words = ": ".join(filter(None, (str(exc), self._line.story())))
            raise ToolServerFailed(words, is_lost=exc.is_lost) from exc
        except TimeoutError as exc:
            raise ToolServerFailed(f"did not answer within {timeout_s:g} s") from exc

    async def call_tool(
        self, tool: str, arguments: dict[str, Any], *, timeout_s: float, longest_s: float
    ) -> CallToolResult:
        """Raises `ToolServerFailed`. Whoever reports progress has `timeout_s` again, until `longest_s` are over."""
        ends = anyio.current_time() + longest_s
        limit = anyio.CancelScope(deadline=anyio.current_time() + timeout_s)

        async def goes_on(progress: float, total: float | None, message: str | None) -> None:
            limit.deadline = min(anyio.current_time() + timeout_s, ends)

        async def call(client: Client) -> CallToolResult:
            with limit:
                return await client.call_tool(tool, arguments, progress_callback=goes_on)
            over = longest_s if anyio.current_time() >= ends else timeout_s
            raise ToolServerFailed(f"did not answer within {over:g} s")

        return await self.ask(call, timeout_s=longest_s + timeout_s)

    async def listen(self, missed: Callable[[], None]) -> None:
        """Newer servers tell of changes only to those who ask; what they tell arrives as it does from older ones.

        Returns when the server does not offer that. `missed` is called after a gap.
        """
        from mcp.client.subscriptions import SubscriptionLost

        has = self._client.server_capabilities
        while True:
            try:
                with _translated():
                    async with self._client.listen(
                        tools_list_changed=has.tools is not None,
                        prompts_list_changed=has.prompts is not None,
                        resources_list_changed=has.resources is not None,
                    ) as changes:
                        async for _ in changes:
                            pass
            except ToolServerFailed as exc:
                if not isinstance(exc.__cause__, SubscriptionLost):
                    return
            except TimeoutError:
                return
            await anyio.sleep(LISTEN_AGAIN_S)
            missed()

    async def _all(
        self, kind: Kind, fetch: Callable[[str | None], Awaitable[Any]], items_of: Callable[[Any], list[T]]
    ) -> list[T]:
        """Every page of a list; nothing when the server has no such list."""
        found: list[T] = []
        if getattr(self._client.server_capabilities, kind) is None:
            return found
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            with _translated():
                page = await fetch(cursor)
            found += items_of(page)
            following = page.next_cursor
            if not following or following == cursor or len(found) >= MAX_ITEMS:
                break
            cursor = following
        return found[:MAX_ITEMS]


@asynccontextmanager
async def connected(line: Line, mode: str, changed: Callable[[Kind], None]) -> AsyncIterator[Connection]:
    """A connection for as long as the block lasts. To be entered and left in one task.

    `changed` is called when the server says that one of its lists is another one now. Raises what the library
    raises; `reason_of` makes words of it.
    """
    from mcp_types import Implementation

    from mcp import Client

    async def heard(message: Any) -> None:
        kind = _CHANGES.get(getattr(message, "method", ""))
        if kind:
            changed(kind)

    lost = anyio.Event()
    us = Implementation(name="bullpen", version=__version__)
    async with Client(
        _watched(line.streams(), lost), mode=mode, cache=None, client_info=us, message_handler=heard
    ) as client:
        yield Connection(client, line, lost)


_CHANGES: dict[str, Kind] = {f"notifications/{kind}/list_changed": kind for kind in KINDS}


@asynccontextmanager
async def _watched(transport: Transport, lost: anyio.Event) -> AsyncIterator[TransportStreams]:
    async with transport as (read, write):
        yield _Watched(read, lost), write


class _Watched:
    """A stream that tells when it ends; the library keeps that to itself."""

    def __init__(self, inner: Any, lost: anyio.Event) -> None:
        self._inner = inner
        self._lost = lost

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        try:
            return await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._lost.set()
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Watched:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def reason_of(exc: Exception) -> ToolServerFailed:
    """What the library raised, in words. Errors come wrapped in groups; the first one inside tells most."""
    while isinstance(exc, ExceptionGroup):
        exc = exc.exceptions[0]
    if isinstance(exc, ToolServerFailed):
        return exc
    from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

    from mcp import MCPError

    words = str(exc) or type(exc).__name__
    if not isinstance(exc, MCPError):
        return ToolServerFailed(words, is_lost=isinstance(exc, OSError | anyio.ClosedResourceError))
    return ToolServerFailed(
        words,
        is_lost=exc.code == CONNECTION_CLOSED or words == "Session terminated",
        is_foreign=exc.code in {UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND, INVALID_REQUEST},
    )


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Servers and the library fail in many ways, and none of them may go further than this room."""
    try:
        yield
    except (ToolServerFailed, TimeoutError):
        raise
    except Exception as exc:
        raise reason_of(exc) from exc
