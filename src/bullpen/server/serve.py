"""The running HTTP server: it listens, it stops with patience, and it hears signals.

uvicorn's protocols do the work, its `Server` does not: that one raises the signal again after a clean
stop, wakes ten times a second, and closes unix sockets in its own way.

A stop is ordered by whoever owns the server: first the application ends its streams and refuses work,
then `HttpServer.stop` closes the listeners, waits for the answers under way and cuts the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import resource
import signal
import socket
import ssl
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from email.utils import formatdate
from types import FrameType
from typing import Any, TypeVar

from starlette.types import ASGIApp
from uvicorn.config import Config

from bullpen.server.link import Limits, TransportState
from bullpen.server.protocol import Door
from bullpen.system.tally import Tally

T = TypeVar("T")

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_OTHER_FILES = 256
"""File descriptors kept free for the database, tools and their pipes when connections are limited."""

_FEWEST_CONNECTIONS = 64

_LAST_WORDS_S = 1.0
"""How long requests whose connection was cut have to notice, before their tasks are cancelled."""

_POLL_S = 0.01


class HttpServer:
    """Serves one ASGI application on sockets that are bound already.

    `async with` starts it and, at the end, stops it without grace. TLS, where given, holds for the TCP
    sockets. The application gets no lifespan messages: whoever owns the server owns its lifetime too.
    """

    def __init__(
        self,
        app: ASGIApp,
        sockets: Sequence[socket.socket],
        *,
        limits: Limits | None = None,
        tls: ssl.SSLContext | None = None,
        tally: Tally | None = None,
    ) -> None:
        self._sockets = sockets
        self._limits = limits or Limits()
        self._tls = tls
        self._state = TransportState(tally)
        self.tally.gauges |= {
            "connections": lambda: len(self._state.connections),
            "requests": lambda: len(self._state.tasks),
        }
        self._listeners: list[asyncio.AbstractServer] = []
        self._clock: asyncio.TimerHandle | None = None
        self._config = Config(
            app=app,
            interface="asgi3",
            http=Door,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # It would believe anybody on this machine who claims to be someone else.
            server_header=False,
            timeout_keep_alive=self._limits.idle_s,
        )

    @property
    def tally(self) -> Tally:
        """What was refused and cut so far, by reason."""
        return self._state.tally

    async def start(self) -> None:
        """Listen on every socket; connections are served from here on."""
        self._config.load()
        self._tell_time()
        limits = _within_file_limit(self._limits)
        loop = asyncio.get_running_loop()

        def door() -> Door:
            return Door(self._config, self._state, limits)

        for sock in self._sockets:
            if sock.family == socket.AF_UNIX:
                listener = await loop.create_unix_server(door, sock=sock, backlog=self._config.backlog)
            else:
                listener = await loop.create_server(
                    door, sock=sock, ssl=self._tls, backlog=self._config.backlog
                )
            self._listeners.append(listener)

    async def stop(self, grace_s: float = 5.0) -> None:
        """Close the listeners, let answers under way end for `grace_s`, then cut what is left.

        May be called again. When it returns, no connection is open and no request runs, unless one ignores
        that it was cancelled.
        """
        for listener in self._listeners:
            listener.close()
        for sock in self._sockets:
            sock.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        await self._wait_until_idle(grace_s)
        for connection in list(self._state.connections):
            self._state.tally["cut_at_stop"] += 1
            connection.transport.abort()
        await self._wait_until_idle(_LAST_WORDS_S)
        await self._cancel_requests()
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    async def __aenter__(self) -> HttpServer:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop(grace_s=0)

    async def _wait_until_idle(self, limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self._state.connections or self._state.tasks:  # noqa: ASYNC110  # uvicorn's sets tell nobody.
                    await asyncio.sleep(_POLL_S)

    async def _cancel_requests(self) -> None:
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS_S)

    def _tell_time(self) -> None:
        """Keep the `Date` field right, once a second for all answers."""
        date = formatdate(time.time(), usegmt=True).encode()
        self._state.default_headers = [(b"date", date)]
        self._clock = asyncio.get_running_loop().call_later(1.0, self._tell_time)


@contextlib.contextmanager
def stop_signals(on_signal: Callable[[], None]) -> Iterator[None]:
    """Within the block the first SIGINT or SIGTERM calls `on_signal` in the loop; a second one ends the process.

    The second does not wait for the loop, which may be what hangs. The signal is not raised again after
    the block: a server that stopped cleanly exits with 0. To be entered in the main thread.
    """
    loop = asyncio.get_running_loop()
    heard = False

    def hear(signum: int, _frame: FrameType | None) -> None:
        nonlocal heard
        if heard:
            os._exit(128 + signum)
        heard = True
        loop.call_soon_threadsafe(on_signal)

    previous = {signum: signal.signal(signum, hear) for signum in STOP_SIGNALS}
    try:
        yield
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the process's main coroutine on uvloop, or on asyncio's own loop where that is missing."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415  # There is no uvloop on some systems.
    except ImportError:
        return None
    return uvloop.new_event_loop


def _within_file_limit(limits: Limits) -> Limits:
    """Lower the number of connections to what the process may open: a 503 is better than a failed accept."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits
    room = max(soft - _OTHER_FILES, _FEWEST_CONNECTIONS)
    return dataclasses.replace(limits, connections=min(limits.connections, room))
