"""Event streams: one client's trail, written to its connection as fast as it reads.

Headers go out at once, before any event. A comment tells an idle client that the server lives. A client that
does not read costs a position in the feed and what its connection may hold unsent; the transport cuts it
when it takes nothing for too long. The stream ends cleanly when its workspace ends or its client is retired.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable

import anyio
from starlette.types import Receive, Scope, Send

from bullpen.broker.subscription import CHUNK_BYTES, Subscription
from bullpen.server.link import link_of
from bullpen.workspace.host import Host
from bullpen.workspace.trail import Trail
from bullpen.workspace.workspace import Workspace

KEEPALIVE = b": keepalive\n\n"


async def stream_events(
    scope: Scope,
    receive: Receive,
    send: Send,
    host: Host,
    workspace: Workspace,
    client_id: str,
    *,
    deltas: bool,
    after: str | None,
    name: str,
) -> None:
    """Answer with the stream. Raises `WorkspaceNotFound` or `ClientRetired` before anything was sent."""
    trail = host.attach(workspace, client_id, deltas=deltas, after=after, name=name)
    trail.subscription.write_now = link_of(scope)["write_now"]
    detach = functools.partial(host.detach, workspace, client_id, trail)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch_for_hangup, receive, detach, tasks.cancel_scope)
            await _send_all(send, trail, host.keepalive_s)
            tasks.cancel_scope.cancel()
    finally:
        detach()


async def _send_all(send: Send, trail: Trail, keepalive_s: float) -> None:
    headers = [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        (b"bullpen-cursor", trail.cursor.encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    # The first bytes of the body make the server send the headers now.
    await _write(send, b": open\n\n")
    async for piece in trail.begin():
        await _write(send, piece)
    subscription = trail.subscription
    while True:
        subscription.wake.clear()
        async for piece in trail.follow():
            await _write(send, piece)
        if subscription.closed:
            break
        if not await _woken(subscription, keepalive_s):
            await _write(send, KEEPALIVE)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _woken(subscription: Subscription, keepalive_s: float) -> bool:
    """Wait until there is something to take; meanwhile the feed writes by itself. False when nobody has written
    anything for too long."""
    loop = asyncio.get_running_loop()
    silent_since = loop.time()
    subscription.waits = True
    try:
        while (silent_until := silent_since + keepalive_s) > loop.time():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(silent_until):
                    return await subscription.wake.wait()
            silent_since = max(silent_since, subscription.written_at)
        return False
    finally:
        subscription.waits = False


async def _write(send: Send, data: bytes) -> None:
    """In pieces of bounded size: each waits until the connection has room for it."""
    for start in range(0, len(data), CHUNK_BYTES):
        piece = data if len(data) <= CHUNK_BYTES else data[start : start + CHUNK_BYTES]
        await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _watch_for_hangup(receive: Receive, detach: Callable[[], None], scope: anyio.CancelScope) -> None:
    """The room learns at once who has left; then the writer is stopped."""
    while (await receive())["type"] != "http.disconnect":
        pass
    detach()
    scope.cancel()
