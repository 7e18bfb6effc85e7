"""The link of one client to its workspace: opened, followed, opened again, whatever happens to the server.

    stream ends or falls silent  → opened again behind the last event seen, after a growing pause
    workspace gone (404)         → created again, its id taken over, our current session shown again
    server died                  → started again, if a client had started it or somebody needs it now
    events lost (`resync`)       → sessions and loaded messages read anew

Calls made meanwhile wait for the link to come back and are sent again.
"""

from __future__ import annotations

import logging
import random
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress

import anyio
import anyio.to_thread
import httpx2
from anyio.abc import TaskStatus

from bullpen.client.autostart import Starter
from bullpen.client.http import Answer, Connection
from bullpen.client.mirror import Mirror
from bullpen.client.stream import SILENCE_S, Backoff, Incoming, Place, open_stream
from bullpen.client.updates import LinkChanged, Update, Updates
from bullpen.errors import (
    BadRequest,
    BullpenError,
    ClientRetired,
    Forbidden,
    NotFound,
    ServerUnreachable,
    ShuttingDown,
    Unauthorized,
    WorkspaceClosing,
    WorkspaceNotFound,
)
from bullpen.schema.agent import QueuedPrompt, Workspace
from bullpen.schema.api import CurrentSession, NewWorkspace
from bullpen.schema.asks import OpenAsks
from bullpen.schema.events import Event, MessageDelta, QueueChanged, Resync, RunComplete
from bullpen.schema.message import Message
from bullpen.schema.session import Session

log = logging.getLogger(__name__)

CREATE_ATTEMPTS = 3
"""A server that is leaving is replaced; one that leaves three times in a row is not to be had."""

LEAVE_S = 5.0
"""How long saying goodbye may take; after that the server finds out by itself."""

PATIENCE_S = 30.0
"""How long a call waits for the link to come back. Prompts wait for as long as the caller does."""

STUCK_AFTER = 20
"""After so many attempts in a row, some two and a half minutes, the reader is told again that it has not worked yet."""

FATAL = (BadRequest, Unauthorized, Forbidden, ClientRetired)
"""Refusals that no further attempt will change."""


def always(_exc: ServerUnreachable) -> bool:
    """For calls that do no more when they are made twice."""
    return True


def was_not_sent(exc: ServerUnreachable) -> bool:
    """Whether the call certainly never reached the server, so that sending it again does nothing twice."""
    return isinstance(exc.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout)


class Link:
    """The one that reads the stream, keeps the mirror true and sends calls."""

    def __init__(
        self,
        server: Connection,
        request: NewWorkspace,
        starter: Starter | None = None,
        *,
        silence_s: float = SILENCE_S,
        rng: random.Random | None = None,
    ) -> None:
        self.server = server
        self.request = request
        self.mirror = Mirror()
        self.workspace: Workspace | None = None
        self.current_session = ""
        self.runs: dict[str, tuple[str, str]] = {}
        """Runs that somebody may wait for, with their sessions and prompts."""
        self._id = ""
        self._starter = starter
        self._silence_s = silence_s
        self._rng = rng or random.Random()
        self._cursor = ""
        self._incoming: Incoming | None = None
        self._up = anyio.Event()
        self._was_down = False
        self._failures = 0
        self._wanted = anyio.Event()
        self._moved = anyio.Event()
        self._failure: BullpenError | None = None
        self._hopeless: set[str] = set()
        self._readers: weakref.WeakSet[Updates] = weakref.WeakSet()

    @property
    def is_up(self) -> bool:
        return self._up.is_set()

    def updates(self) -> Updates:
        updates = Updates(lambda: self._failure)
        self._readers.add(updates)
        return updates

    @property
    def quiet_s(self) -> float:
        """How long nothing has come on the stream, not even a heartbeat."""
        return anyio.current_time() - self._incoming.heard_at if self._incoming else 0.0

    @property
    def failure(self) -> BullpenError | None:
        """What ended the link for good, if anything did."""
        return self._failure

    async def moved(self) -> None:
        """Wait until anything has happened. Raises what ended the link for good."""
        self._check()
        await self._moved.wait()

    # Calls

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        patience_s: float | None = PATIENCE_S,
        may_repeat: Callable[[ServerUnreachable], bool] = always,
    ) -> Answer:
        """Call `path` below the workspace, again after each loss of the link for `patience_s` (None: for ever)."""
        ends = None if patience_s is None else anyio.current_time() + patience_s
        pauses = Backoff(self._rng)
        while True:
            self._check()
            try:
                return await self._call_once(method, path, body, headers, timeout_s)
            except (WorkspaceNotFound, WorkspaceClosing) as exc:
                lost: BullpenError = exc
            except ServerUnreachable as exc:
                if not may_repeat(exc):
                    raise
                lost = exc
            if ends is not None and anyio.current_time() >= ends:
                raise lost
            await anyio.sleep(min(pauses.pause_s(), 1.0))
            if ends is None:
                self._wanted.set()
            with anyio.move_on_after(None if ends is None else ends - anyio.current_time()):
                await self._wait_up()

    async def _call_once(
        self,
        method: str,
        path: str,
        body: object,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        if not self._id:
            raise WorkspaceNotFound("")
        where = f"/workspaces/{self._id}{path}"
        return await self.server.call(method, where, body, headers=headers, timeout_s=timeout_s)

    async def _wait_up(self) -> None:
        while not self.is_up:
            self._check()
            await self._up.wait()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    # Joining and leaving

    async def enter(self) -> None:
        """Open the workspace and read its sessions; the stream will go on from there."""
        try:
            await self._create()
        except ServerUnreachable as exc:
            # A server that had nothing to do may leave between being found and being asked.
            if self._starter is None or not was_not_sent(exc):
                raise
            await self._starter.ensure()
            await self._create()
        self._cursor = await self._read_sessions()
        await self._read_asks()

    async def leave(self) -> None:
        """Take back this client's claims; a server that cannot be reached needs no goodbye."""
        with anyio.move_on_after(LEAVE_S), suppress(BullpenError):
            try:
                await self.server.call("DELETE", f"/clients/{self.request.client_id}", timeout_s=LEAVE_S)
            except NotFound:
                claim = {"client_id": self.request.client_id}
                await self.server.call("DELETE", f"/workspaces/{self._id}", params=claim, timeout_s=LEAVE_S)

    async def _create(self) -> None:
        self.workspace = (await self._post_create()).read(Workspace)
        self._id = self.workspace.id

    async def _post_create(self, attempts: int = CREATE_ATTEMPTS) -> Answer:
        try:
            return await self.server.call("POST", "/workspaces", self.request)
        except ShuttingDown:
            if self._starter is None or attempts == 1:
                raise
        await self._starter.replace()
        return await self._post_create(attempts - 1)

    # Following

    async def follow(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Read the stream for ever, opening it again whenever it ends. Started when it is open first."""
        backoff = Backoff(self._rng)
        first = _Once(task_status.started)
        while self._failure is None:
            recreated = False
            try:
                if not self._id:
                    await self._create()
                    recreated = True
                reason = await self._read_stream(backoff, first, recreated=recreated)
            except WorkspaceNotFound:
                self._id = ""
                reason = "the workspace was closed"
            except FATAL as exc:
                self._fail(exc)
                break
            except BullpenError as exc:
                reason = exc.message
            self._went_down(reason)
            await self._pause(backoff.pause_s())
            await self._revive()
        first()

    async def _read_stream(self, backoff: Backoff, first: _Once, *, recreated: bool) -> str:
        """Follow one stream to its end; the answer says how it ended."""
        async with open_stream(
            self.server, self._id, self.request.client_id, after=self._cursor, silence_s=self._silence_s
        ) as incoming:
            self._incoming = incoming
            if self._was_down:
                await self.show_current_session()
                # What was never stored (who is here, who is busy) is not replayed.
                await self._read_sessions()
                await self._read_asks()
            self._cursor = self._cursor or incoming.cursor
            self._came_up(recreated=recreated)
            first()
            async for event in incoming.events():
                backoff.reset()
                await self._take(event)
            if incoming.heard:
                backoff.reset()
        return "the server ended the stream"

    async def _pause(self, seconds: float) -> None:
        """Wait before the next attempt, but not longer than until somebody needs the link."""
        with anyio.move_on_after(seconds):
            await self._wanted.wait()

    async def _revive(self) -> None:
        wanted, self._wanted = self._wanted.is_set(), anyio.Event()
        if self._starter is None:
            return
        try:
            await self._starter.revive(wanted=wanted)
        except BullpenError as exc:
            log.info("the server did not come back: %s", exc)

    def _came_up(self, *, recreated: bool) -> None:
        self._up.set()
        self._failures = 0
        if self._was_down:
            self._was_down = False
            self._tell(LinkChanged(state="connected", recreated=recreated))

    def _went_down(self, reason: str) -> None:
        if self._up.is_set():
            self._up = anyio.Event()
        self._failures += 1
        self._was_down = True
        if self._failures in {1, STUCK_AFTER}:
            self._tell(LinkChanged(state="reconnecting", reason=reason))

    def _fail(self, error: BullpenError) -> None:
        self._failure = error
        self._up.set()
        for reader in list(self._readers):
            reader.wake()
        self._wake_all()

    # Events

    async def _take(self, event: Event) -> None:
        match event.payload:
            case Resync() as lost:
                await self._resync(lost)
            case Message(id=message_id):
                self._hopeless.discard(message_id)
                self.mirror.apply(event)
            case MessageDelta(message_id=message_id):
                stale = self.mirror.apply(event)
                if stale and message_id not in self._hopeless:
                    await self._read_messages(stale)
                    if self.mirror.apply(event):
                        # Not even what is stored fits; its next whole update will.
                        self._hopeless.add(message_id)
            case RunComplete() as end:
                self.mirror.apply(event)
                for run_id in (end.run_id, *end.run_ids):
                    self.runs.pop(run_id, None)
            case QueueChanged(prompts=prompts):
                self.mirror.apply(event)
                # A waiting prompt may have been given another text.
                self.runs.update({p.run_id: (p.session_id, p.text) for p in prompts if p.run_id in self.runs})
            case _:
                self.mirror.apply(event)
        place = Place.of(event.id)
        if event.id and not (place and place.volatile):
            self._cursor = event.id
        self._tell(event)

    async def _resync(self, lost: Resync) -> None:
        """Read anew what the stream could not tell."""
        if lost.cursor:
            self._cursor = lost.cursor
        cursor = await self._read_sessions()
        self._cursor = lost.cursor or cursor
        for session_id in self.mirror.loaded:
            await self._read_messages(session_id)
        await self._read_asks()
        self.mirror.queues.clear()
        await self._settle_runs()

    async def _read_sessions(self) -> str:
        answer = await self._call_once("GET", "/sessions", None)
        self.mirror.hold_sessions(answer.read(list[Session]), answer.cursor)
        return answer.cursor

    async def _read_messages(self, session_id: str) -> None:
        with self.mirror.loading(session_id) as hold:
            answer = await self._call_once("GET", f"/sessions/{session_id}/messages", None)
            hold(answer.read(list[Message]), answer.cursor)

    async def _read_asks(self) -> None:
        try:
            answer = await self._call_once("GET", "/asks", None)
        except WorkspaceNotFound:
            raise
        except NotFound:
            # A server without this list shows the open asks at the start of the stream.
            self.mirror.drop_dead_asks()
            return
        found = answer.read(OpenAsks)
        self.mirror.hold_asks((*found.permissions, *found.questions))

    async def show_current_session(self) -> None:
        """Tell the others where we are; told again with every new stream, so that a failure does not matter."""
        if not self._id:
            return
        with suppress(BullpenError):
            await self.server.call(
                "POST",
                f"/workspaces/{self._id}/current-session",
                CurrentSession(session_id=self.current_session),
                params={"client_id": self.request.client_id},
            )

    async def _settle_runs(self) -> None:
        """Find the ends of runs that fell into a gap, by what is stored. Those that go on will tell."""
        for run_id, (session_id, text) in list(self.runs.items()):
            waiting = await self._call_once("GET", f"/agent/sessions/{session_id}/prompts", None)
            if any(p.run_id == run_id for p in waiting.read(list[QueuedPrompt])):
                continue
            answer = await self._call_once("GET", f"/sessions/{session_id}/messages", None)
            last = last_answer(answer.read(list[Message]), text)
            session = self.mirror.session(session_id)
            if last or not (session and session.is_busy):
                self.mirror.hold_end(stored_end(run_id, session_id, last))
                self.runs.pop(run_id, None)

    def _tell(self, update: Update) -> None:
        for reader in list(self._readers):
            reader.put(update)
        self._wake_all()

    def _wake_all(self) -> None:
        self._moved.set()
        self._moved = anyio.Event()


class _Once:
    """Calls a function the first time it is called itself."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function: Callable[[], None] | None = function

    def __call__(self) -> None:
        function, self._function = self._function, None
        if function:
            function()


def last_answer(messages: list[Message], prompt: str) -> Message | None:
    """The answer with which the turn of a prompt ended, or None when it has not ended or never began.

    An answer that called tools is not the last one, whatever prompts were folded in behind it.
    """
    begins = [n for n, m in enumerate(messages) if m.role == "user" and m.text == prompt]
    for message in messages[begins[-1] :] if begins else ():
        if message.role == "assistant" and message.finish and message.finish.reason != "tool_use":
            return message
    return None


def stored_end(run_id: str, session_id: str, last: Message | None) -> RunComplete:
    """The end of a run whose event was lost. Without an answer it was dropped before it began."""
    finish = last.finish if last else None
    return RunComplete(
        session_id=session_id,
        run_id=run_id,
        message_id=last.id if last else "",
        text=last.text if last else "",
        error=(finish.details or finish.message) if finish and finish.reason == "error" else "",
        cancelled=finish is None or finish.reason == "canceled",
    )
