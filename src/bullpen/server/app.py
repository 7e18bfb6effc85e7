"""The application: every request comes in here, is checked, finds its endpoint and gets one answer.

Whatever happens, a request ends in exactly one answer and one line in the log, which never holds the
query string. The order is fixed: token and origin, path and method, the store's being open, and then
what the endpoint asks for.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.types import ASGIApp, Receive, Scope, Send

from bullpen.errors import BullpenError
from bullpen.server.auth import Guard
from bullpen.server.errors import INTERNAL_ERROR, reply_to, unwrapped
from bullpen.server.exchange import Connection, Gone, Reply, WatchedSend
from bullpen.server.link import EXTENSION
from bullpen.server.routes import (
    agent,
    asks,
    changes,
    config,
    docs,
    files,
    jobs,
    library,
    lsp,
    mcp,
    permissions,
    project,
    prompts,
    questions,
    sessions,
    system,
    workspaces,
)
from bullpen.server.routing import Endpoint, Match, Request, Router, split_path

if TYPE_CHECKING:
    from bullpen.workspace.host import Host

ROOMS = (
    system, workspaces, project, sessions, library, changes, files, agent, jobs, prompts, permissions, questions, asks, config, lsp, mcp,
    docs,
)  # fmt: skip

CLIENT_CLOSED = 499
"""The usual name in logs for a request whose client hung up; it is never sent."""

_PLAIN = b"text/plain; charset=utf-8"
_NOT_FOUND = Reply(404, b"404 page not found\n", _PLAIN)

_log = logging.getLogger("bullpen.server")
_requests = logging.getLogger("bullpen.request")


def endpoints() -> list[Endpoint]:
    """Every endpoint there is, in the order of the API page."""
    return [value for room in ROOMS for value in vars(room).values() if isinstance(value, Endpoint)]


def build_app(host: Host, *, token: str | None, names: Collection[str] = ()) -> ASGIApp:
    """The ASGI application over `host`.

    `token` opens TCP; without one only unix sockets are served. `names` are further host names that the
    server is reached by. Raises `ValueError` when an endpoint has no access rule.
    """
    return App(host, endpoints(), Guard(token, names))


class App:
    """Answers requests. It has no lifetime of its own: the host comes in open and is closed by its owner."""

    def __init__(self, host: Host, routes: Iterable[Endpoint], guard: Guard) -> None:
        self._host = host
        self._router = Router(routes)
        self._guard = guard
        self._is_ready = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"this application does not speak {scope['type']}")
        began = time.perf_counter()
        watched = WatchedSend(send)
        reply = await self._reply(Connection(scope, receive, watched))
        if reply is not None:
            await reply.send(watched, head=scope["method"] == "HEAD")
        _record(scope, watched.status or CLIENT_CLOSED, time.perf_counter() - began)

    async def _reply(self, connection: Connection) -> Reply | None:
        """The answer, or nothing where it has been sent or nobody waits for it."""
        segments = split_path(connection.scope)
        match = self._router.match(segments)
        endpoint = _select(match, connection.scope["method"])
        try:
            self._guard.check(connection.scope, is_open=endpoint is not None and endpoint.access == "open")
            if match is None or endpoint is None:
                return _astray(connection.scope, segments, match)
            if endpoint.needs_store and not self._is_ready:
                await self._host.wait_ready()
                self._is_ready = True
            request = Request(self._host, self._router.endpoints, connection, match.segments)
            return await endpoint.reply(request)
        except Gone:
            return None
        except Exception as exc:
            return _failed(unwrapped(exc), endpoint, connection)


def _select(match: Match | None, method: str) -> Endpoint | None:
    return match.methods.get("GET" if method == "HEAD" else method) if match else None


def _astray(scope: Scope, segments: list[str], match: Match | None) -> Reply:
    """A path that needs cleaning, a path that leads nowhere, or a method that is not for this path."""
    if not {"", ".", ".."}.isdisjoint(segments[:-1]) or not {".", ".."}.isdisjoint(segments[-1:]):
        return Reply(307, headers=((b"location", _clean(scope, segments)),))
    if match is None:
        return _NOT_FOUND
    return Reply(405, b"Method Not Allowed\n", _PLAIN, ((b"allow", match.allow),))


def _clean(scope: Scope, segments: list[str]) -> bytes:
    """The path without empty and dotted segments. It begins with one slash, so it cannot name another host."""
    kept: list[str] = []
    for segment in segments:
        if segment == ".." and kept:
            kept.pop()
        elif segment not in {"", ".", ".."}:
            kept.append(quote(segment, safe=""))
    path = "/" + "/".join(kept) + ("/" if kept and segments[-1] in {"", ".", ".."} else "")
    query: bytes = scope.get("query_string", b"")
    return path.encode() + (b"?" + query if query else b"")


def _failed(error: BaseException, endpoint: Endpoint | None, connection: Connection) -> Reply | None:
    scope = connection.scope
    if isinstance(error, BullpenError) and not connection.send.status:
        return reply_to(error, endpoint.statuses) if endpoint else reply_to(error)
    _log.error("%s %s failed", scope["method"], _shown(scope), exc_info=error)
    return None if connection.send.status else INTERNAL_ERROR


def _record(scope: Scope, status: int, took_s: float) -> None:
    """One line per request. What went well is of interest only to somebody who looks for trouble."""
    level = logging.DEBUG if status < 400 else logging.INFO
    if _requests.isEnabledFor(level):
        peer = _peer(scope)
        _requests.log(
            level, "%s %s %d %.1f ms %s", scope["method"], _shown(scope), status, took_s * 1000, peer
        )


def _peer(scope: Scope) -> str:
    if scope.get("extensions", {}).get(EXTENSION, {}).get("unix") is True:
        return "unix"
    host, port, *_ = scope.get("client") or ("?", 0)
    return f"{host}:{port}"


_UNPRINTABLE = re.compile(r"[^!-~]")


def _shown(scope: Scope) -> str:
    """The path for the log: still encoded, so that it is one word, and without the query."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return _UNPRINTABLE.sub("?", raw.decode("latin-1"))
