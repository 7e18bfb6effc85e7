"""Keeps one language server: starts it when it is wanted, starts again what died, ends it when nobody uses it.

One that could not be started is left alone for a while, with the reason. One that worked and went away is started
again, at most RESTARTS times in RESTARTS_S; then it says so, and waits for somebody to ask for it by name.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import anyio
import msgspec
from anyio.abc import TaskGroup

from bullpen.errors import LanguageServerFailed
from bullpen.lsp.client import Client
from bullpen.lsp.documents import uri_of
from bullpen.lsp.plan import Launch, Plan, launch
from bullpen.schema.agent import ZERO_TIME, LspInfo, rfc3339
from bullpen.schema.events import LspEvent
from bullpen.system.clock import Clock
from bullpen.system.conversations import Conversation, converse
from bullpen.system.processes import Processes

UNSTARTED, STARTING, READY, ERROR, STOPPED, DISABLED = range(6)
"""The states, by their numbers on the wire."""

NAMES = ("not started", "starting", "ready", "in error", "stopped", "disabled")

RESTARTS = 5
RESTARTS_S = 180.0

AGAIN_S = 30.0
"""Before a start that failed is tried again: somebody may have installed the program meanwhile."""

READ_AHEAD_BYTES = 256 * 1024
LEAVE_S = 1.0
CLOSE_S = 0.2
"""How long a server may take to leave by itself when its input ends; then it is ended with all it started."""

LAST_WORDS_S = 0.25
"""Between the end of a process and the end of what is read from it."""

ENDED_S = 7.0
"""What it takes at most until nothing of a server is left."""

ANNOUNCE_S = 0.1
"""Between two events about complaints, however often a server publishes some."""

STDERR_CHARACTERS = 600

Change = Literal["state_changed", "diagnostics_changed"]

log = logging.getLogger(__name__)


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What all servers of a workspace share."""

    root: Path
    env: Mapping[str, str]
    clock: Clock
    processes: Processes
    announce: Callable[[LspEvent], None]
    restart_delay_s: float
    again_s: float = AGAIN_S


class Server:
    """`want` starts it, in a task of its own; all else may be called at any time."""

    def __init__(
        self, plan: Plan, surroundings: Surroundings, *, idle_s: float, is_logged: bool = False
    ) -> None:
        self.plan = plan
        self.name = plan.name
        self._with = surroundings
        self._idle_s = idle_s
        self._is_logged = is_logged
        self._state = DISABLED if plan.disabled else ERROR if plan.problem else UNSTARTED
        self._error = plan.problem
        self._connected_at = ZERO_TIME
        self._client: Client | None = None
        self._scope: anyio.CancelScope | None = None
        self._ended = anyio.Event()
        self._turned = anyio.Event()
        self._dirty = anyio.Event()
        self._restarts: deque[float] = deque()
        self._failed_at: float | None = None
        self._gave_up = False
        self._used_at = 0.0
        self._is_silent = False

    @property
    def state(self) -> int:
        return self._state

    @property
    def client(self) -> Client | None:
        """The open conversation, if the server is ready."""
        return self._client

    def info(self) -> LspInfo:
        return LspInfo(
            name=self.name,
            state=self._state,
            error=self._error,
            diagnostic_count=self._count(),
            connected_at=self._connected_at,
        )

    def touch(self) -> None:
        """It is in use now."""
        self._used_at = self._with.clock.monotonic()

    def want(self, tasks: TaskGroup) -> None:
        """Somebody needs it. Returns at once."""
        self.touch()
        if self._scope is not None or self._state == DISABLED or self._gave_up:
            return
        if self._failed_at is not None and self._used_at < self._failed_at + self._with.again_s:
            return
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._turn(STARTING)
        tasks.start_soon(self._live, self._scope, name=f"language server {self.name}")

    def forgive(self) -> None:
        """Let a server that was given up be tried again."""
        self._gave_up, self._failed_at = False, None
        self._restarts.clear()

    async def ready(self, *, timeout_s: float) -> Client:
        """The conversation, as soon as it is there. Raises `LanguageServerFailed` when it will not be."""
        with anyio.move_on_after(timeout_s):
            while self._state == STARTING:
                await self._turned.wait()
        if self._client is None:
            why = f": {self._error}" if self._error else ""
            raise LanguageServerFailed(f"is {NAMES[self._state]}{why}", server=self.name)
        self.touch()
        return self._client

    def dismiss(self) -> None:
        """Nothing is heard of it from now on; what is left to do is to `stop` it."""
        if self._state in (STARTING, READY):
            self._turn(STOPPED)
        self._is_silent = True

    async def stop(self) -> None:
        """End it and all it started, and wait until that is done; also when cancelled."""
        if self._scope is None:
            return
        self._scope.cancel()
        with anyio.move_on_after(ENDED_S, shield=True):
            await self._ended.wait()

    async def _live(self, scope: anyio.CancelScope) -> None:
        state, why = STOPPED, ""
        try:
            with scope:
                state, why = await self._keep()
        finally:
            self._scope = None
            self._turn(state, why)
            self._ended.set()

    async def _keep(self) -> tuple[int, str]:
        while True:
            why, was_up = await self._attempt()
            if not why:
                return STOPPED, ""
            now = self._with.clock.monotonic()
            if not was_up:
                self._failed_at = now
                return ERROR, why
            if not self._may_restart(now):
                self._gave_up = True
                limit = f"stopped after {RESTARTS} restarts in {RESTARTS_S / 60:g} minutes"
                return ERROR, f"{limit}; the last time it {why}. lsp_restart tries again"
            log.info("the language server %s %s; it is started again", self.name, why)
            self._turn(STARTING, why)
            await anyio.sleep(self._with.restart_delay_s * (len(self._restarts) - 1))

    def _may_restart(self, now: float) -> bool:
        while self._restarts and self._restarts[0] <= now - RESTARTS_S:
            self._restarts.popleft()
        if len(self._restarts) >= RESTARTS:
            return False
        self._restarts.append(now)
        return True

    async def _attempt(self) -> tuple[str, bool]:
        """Start it and stay with it. Gives back why it is over, empty when it was idle, and whether it had worked."""
        try:
            found = await anyio.to_thread.run_sync(launch, self.plan, self._with.root, self._with.env)
            line = await converse(
                self._with.processes,
                found.argv,
                cwd=self._with.root,
                env=found.env,
                limit_bytes=READ_AHEAD_BYTES,
            )
        except LanguageServerFailed as exc:
            return exc.why, False
        except OSError as exc:
            return f"could not be started: {exc.strerror or exc}", False
        was_up = False
        why = ""
        try:
            why, was_up = await self._converse(line, found)
        finally:
            self._client = None
            with anyio.CancelScope(shield=True):
                await line.close(grace_s=CLOSE_S)
        return (self._tidy(f"{why}{_last_words(line)}") if why else ""), was_up

    async def _converse(self, line: Conversation, found: Launch) -> tuple[str, bool]:
        client = Client(
            line,
            name=self.name,
            folder={"uri": uri_of(self._with.root), "name": self._with.root.name},
            settings=found.settings,
            changed=self._mark_dirty,
            is_logged=self._is_logged,
        )
        failures: list[str] = []

        async def listen() -> None:
            try:
                await client.listen()
            except LanguageServerFailed as exc:
                failures.append(exc.why)

        async def watch() -> None:
            # Something that it left behind may hold its output open for ever.
            await line.process.wait()
            await anyio.sleep(LAST_WORDS_S)
            client.lose("ended")

        was_up = is_idle = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            tasks.start_soon(watch)
            try:
                await client.initialize(self.plan.init_options, timeout_s=self.plan.timeout_s)
                was_up = True
                tasks.start_soon(self._announce_complaints)
                is_idle = await self._hold(client)
            except LanguageServerFailed as exc:
                failures.append(exc.why)
            tasks.cancel_scope.cancel()
        return ("" if is_idle else failures[0] if failures else "ended"), was_up

    async def _hold(self, client: Client) -> bool:
        """Until it is gone or nobody has used it for long. Gives back whether it was the second."""
        self._client = client
        self._connected_at = rfc3339(self._with.clock.time())
        self._failed_at = None
        self._turn(READY)
        while not client.lost.is_set():
            left = self._used_at + self._idle_s - self._with.clock.monotonic()
            if self._idle_s > 0 and left <= 0 and not client.is_busy:
                self._client = None
                await client.leave(timeout_s=LEAVE_S)
                return True
            with anyio.move_on_after(max(left, 0.05) if self._idle_s > 0 else None):
                await client.lost.wait()
        return False

    def _mark_dirty(self) -> None:
        self._dirty.set()

    async def _announce_complaints(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty = anyio.Event()
            self._announce("diagnostics_changed")
            await anyio.sleep(ANNOUNCE_S)

    def _turn(self, state: int, error: str = "") -> None:
        self._state, self._error = state, error
        if state != READY:
            self._client = None
            self._connected_at = ZERO_TIME
        turned, self._turned = self._turned, anyio.Event()
        turned.set()
        self._announce("state_changed")

    def _announce(self, change: Change) -> None:
        if not self._is_silent:
            self._with.announce(
                LspEvent(
                    type=change,
                    name=self.name,
                    state=self._state,
                    error=self._error,
                    diagnostic_count=self._count(),
                )
            )

    def _count(self) -> int:
        return self._client.complaints.count() if self._client is not None else 0

    def _tidy(self, why: str) -> str:
        """Without what the configuration holds of secrets."""
        for secret in self.plan.env.values():
            if len(secret) >= 6:
                why = why.replace(secret, "[hidden]")
        return why


def _last_words(line: Conversation) -> str:
    """How the process ended, and what it said last."""
    said = line.process.stderr.text().strip()[-STDERR_CHARACTERS:]
    return f": {said}" if said else ""
