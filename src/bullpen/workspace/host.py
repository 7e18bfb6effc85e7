"""All workspaces of a server: who creates, joins and leaves them, and when the server itself may go.

One event loop changes the registry, and never waits between looking and changing, so there is no lock. Each
workspace lives in a task of its own. The rules:

* a workspace is alive while it has a claim; with `outlive` also while it has work;
* an attach finds it alive and keeps it so, or gets 404; from the moment its end is decided it is not found;
* a create that meets a workspace on its way out waits for the end and opens it anew;
* the server may exit by itself when it hosts nothing and nothing is being opened.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from bullpen import __version__
from bullpen.engine.recovery import recover
from bullpen.errors import (
    BadRequest,
    BullpenError,
    ChannelsDiffer,
    ClientRetired,
    HostingWorkspaces,
    ShuttingDown,
    WorkspaceNotFound,
)
from bullpen.schema import agent as nouns
from bullpen.schema.agent import ServerStats, VersionInfo
from bullpen.schema.api import NewWorkspace
from bullpen.store.lock import DataLock
from bullpen.system.failpoints import hit
from bullpen.workspace.claims import Claims
from bullpen.workspace.opening import Opening, Surroundings
from bullpen.workspace.place import Place, find_place
from bullpen.workspace.shelves import Shelves
from bullpen.workspace.stores import Stores
from bullpen.workspace.trail import Trail
from bullpen.workspace.workspace import Workspace, open_workspace

log = logging.getLogger("bullpen.workspace")

COMMANDS = ("shutdown", "shutdown_if_idle")

FIRST_USE_S = 2.0
"""How long at least a server that was just started waits for its first workspace, however short its idle
window is: whoever started it needs a moment to come."""

RETIRED_KEPT = 10_000
"""Clients that have gone for good are remembered so that their last requests, still on their way, change nothing. That
takes seconds; a server that lives for months must not remember them all."""

JOB_CHECK_S = 1.0
"""How often a workspace that only lives for its work is looked at; jobs end without telling."""


class _Hosted:
    """One workspace's task: `ready` when it can be used, `over` when it is gone."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[Workspace] = loop.create_future()
        self.end = asyncio.Event()
        self.over = asyncio.Event()
        self.expected = 0
        """Creates that wait for it and have no claim on it yet."""
        self.drop_queue = True


class Host:
    """Made by the server's main task, which also runs it (`serve`) and shuts it down."""

    def __init__(
        self,
        *,
        surroundings: Surroundings,
        data_dir: Path,
        lock: DataLock,
        env: Mapping[str, str],
        idle_exit_s: float | None,
        keepalive_s: float,
        on_exit: Callable[[], None],
    ) -> None:
        self._with = surroundings
        self._data_dir = data_dir
        self._lock = lock
        self._env = env
        self._idle_exit_s = idle_exit_s
        self.keepalive_s = keepalive_s
        self._on_exit = on_exit
        self._stores = Stores(
            clock=surroundings.clock,
            attached=self._attached,
            kind=surroundings.database,
            tally=surroundings.tally,
        )
        self.shelves: Shelves
        """There when the store is open."""
        self._tasks: TaskGroup
        self._live: dict[str, Workspace] = {}
        self._hosted: dict[str, _Hosted] = {}
        self._trails: dict[str, list[Trail]] = {}
        self._retired: dict[str, None] = {}
        self._watched: set[str] = set()
        """Workspaces that live on for their work, each with a task that looks whether it is done."""
        self._pending = 0
        self._was_used = False
        self._exiting = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._ready: asyncio.Event = asyncio.Event()
        surroundings.tally.gauges |= {
            "workspaces": lambda: len(self._hosted),
            "streams": lambda: sum(map(len, self._trails.values())),
            "feeds": self._stores.feeds,
            "subscriptions": self._stores.subscriptions,
            "tasks": lambda: len(asyncio.all_tasks()),
        }

    # Lifetime

    async def serve(self, started: Callable[[], None], stop: asyncio.Event) -> None:
        """Open the store, host workspaces until `stop` is set, then end them all.

        Raises a `StoreError` when the server's own data cannot be opened.
        """
        async with AsyncExitStack() as stack:
            own = await stack.enter_async_context(self._stores.use(self._data_dir, lock=self._lock))
            self.shelves = Shelves(own)
            self._ready.set()
            started()
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                tasks.start_soon(self._with.processes.warm)
                self._arm_idle_exit()
                await stop.wait()
                self._exiting = True
                await self._end_all()

    async def wait_ready(self) -> None:
        await self._ready.wait()

    async def _end_all(self) -> None:
        """The server leaves: turns end as cancelled, what only waits is kept for the next server."""
        hit("stopping")
        self._stop_idle_timer()
        for workspace_id, hosted in list(self._hosted.items()):
            hosted.drop_queue = False
            self._begin_end(workspace_id)
        for hosted in list(self._hosted.values()):
            await hosted.over.wait()

    # What endpoints call

    def version(self) -> VersionInfo:
        return VersionInfo(
            version=__version__,
            commit="",
            build_id=__version__,
            go_version=f"python{platform.python_version()}",
            platform=f"{sys.platform}/{platform.machine()}",
        )

    def stats(self) -> ServerStats:
        counts, gauges = self._with.tally.shown()
        return ServerStats(counts=counts, gauges=gauges)

    def all(self) -> list[Workspace]:
        return list(self._live.values())

    def find(self, workspace_id: str) -> Workspace:
        workspace = self._live.get(workspace_id)
        if workspace is None:
            raise WorkspaceNotFound(workspace_id)
        return workspace

    async def create(self, body: NewWorkspace) -> nouns.Workspace:
        """Open the workspace or join it; either way the client holds a claim on it afterwards."""
        if not body.path:
            raise BadRequest("path is required")
        self._check_admission(body.client_id)
        self._stop_idle_timer()
        self._was_used = True
        self._pending += 1
        try:
            workspace = await self._open_or_join(body)
            return workspace.describe()
        finally:
            self._pending -= 1
            self._arm_idle_exit()

    async def release(self, workspace_id: str, client_id: str) -> None:
        workspace = self._live.get(workspace_id)
        if workspace is not None:
            workspace.claims.release(client_id)
            await self._until_gone(workspace_id)

    async def retire(self, client_id: str) -> None:
        """Give up all claims of a client for good and end its streams."""
        self._retired[client_id] = None
        if len(self._retired) > RETIRED_KEPT:
            del self._retired[next(iter(self._retired))]
        workspaces = list(self._live)
        for workspace in list(self._live.values()):
            workspace.claims.retire(client_id)
        for workspace_id in workspaces:
            await self._until_gone(workspace_id)
        # Streams of workspaces that ended with this client have had their last events and closed by now.
        for trail in self._trails.get(client_id, []):
            trail.subscription.close()

    async def control(self, command: str, *, keep_alive: bool) -> None:
        if command not in COMMANDS:
            raise BadRequest("unknown command")
        if keep_alive or self._hosted or self._pending:
            raise HostingWorkspaces
        self._leave()

    def attach(
        self, workspace: Workspace, client_id: str, *, deltas: bool, after: str | None, name: str
    ) -> Trail:
        """A stream opens: a claim, and a place in the feed. Raises `WorkspaceNotFound`, `ClientRetired`."""
        if client_id in self._retired:
            raise ClientRetired(client_id)
        if self._live.get(workspace.id) is not workspace:
            raise WorkspaceNotFound(workspace.id)
        trail = workspace.trail(deltas=deltas, after=after)
        self._trails.setdefault(client_id, []).append(trail)
        workspace.claims.attach(client_id, name=name, now=int(self._with.clock.time()))
        return trail

    def detach(self, workspace: Workspace, client_id: str, trail: Trail) -> None:
        """The stream has ended; saying so again changes nothing."""
        trails = self._trails.get(client_id, [])
        if trail not in trails:
            return
        trail.close()
        trails.remove(trail)
        if not trails:
            del self._trails[client_id]
        if self._live.get(workspace.id) is workspace:
            workspace.claims.detach(client_id)

    # Opening

    def _check_admission(self, client_id: str) -> None:
        if self._exiting:
            raise ShuttingDown
        if client_id in self._retired:
            raise ClientRetired(client_id)

    async def _open_or_join(self, body: NewWorkspace) -> Workspace:
        place = await asyncio.to_thread(find_place, body.path, body.data_dir, self._data_dir)
        while True:
            self._check_admission(body.client_id)
            hosted = self._hosted.get(place.id)
            if hosted is None:
                hosted = self._start(place, body)
            elif hosted.end.is_set():
                await hosted.over.wait()
                continue
            hosted.expected += 1
            try:
                workspace = await asyncio.shield(hosted.ready)
                if self._hosted.get(place.id) is hosted and not hosted.end.is_set():
                    return self._join(workspace, body)
            finally:
                hosted.expected -= 1
                if not hosted.expected and place.id not in self._live:
                    # Whoever wanted it was refused or has left, and it has never been claimed.
                    hosted.end.set()

    def _join(self, workspace: Workspace, body: NewWorkspace) -> Workspace:
        if body.client_id in self._retired:
            raise ClientRetired(body.client_id)
        if workspace.channels != body.channels:
            raise ChannelsDiffer
        workspace.outlive = workspace.outlive or body.outlive
        self._live[workspace.id] = workspace
        workspace.claims.hold(body.client_id, body.client_name)
        return workspace

    def _start(self, place: Place, body: NewWorkspace) -> _Hosted:
        hosted = self._hosted[place.id] = _Hosted()
        pairs = (pair.partition("=") for pair in body.env if "\0" not in pair)
        env = {name: value for name, equals, value in pairs if name and equals} or dict(self._env)
        opening = Opening(
            id=place.id,
            path=body.path,
            root=place.root,
            yolo=body.yolo,
            debug=body.debug,
            channels=body.channels,
            env=env,
        )
        self._tasks.start_soon(self._run, opening, place.data_dir, hosted)
        return hosted

    async def _run(self, opening: Opening, data_dir: Path, hosted: _Hosted) -> None:
        """A workspace from its opening to its end."""
        try:
            async with self._stores.use(data_dir) as store:
                # Its last opening in this very process may have ended without storing what was running.
                await recover(store, opening.id)
                async with open_workspace(
                    opening, self._with, store, lambda: self._claims(opening.id)
                ) as workspace:
                    hosted.ready.set_result(workspace)
                    await hosted.end.wait()
                    await workspace.end_turns(drop_queue=hosted.drop_queue)
        except Exception as exc:
            error = _innermost(exc)
            if hosted.ready.done():
                log.error("workspace %s ended with an error", opening.root, exc_info=exc)
            else:
                hosted.ready.set_exception(error)
        finally:
            self._live.pop(opening.id, None)
            if self._hosted.get(opening.id) is hosted:
                del self._hosted[opening.id]
            hosted.over.set()
            self._arm_idle_exit()

    def _claims(self, workspace_id: str) -> Claims:
        def on_look(session_id: str) -> None:
            workspace = self._live.get(workspace_id)
            if workspace is not None and not workspace.is_closing:
                self._tasks.start_soon(self._announce, workspace, session_id)

        return Claims(
            detach_grace_s=self._with.detach_grace_s,
            on_empty=lambda: self._unclaimed(workspace_id),
            on_look=on_look,
        )

    async def _announce(self, workspace: Workspace, session_id: str) -> None:
        try:
            await workspace.announce_session(session_id)
        except BullpenError as exc:
            log.warning("presence in %s could not be announced: %s", session_id, exc)

    def _attached(self, workspace_id: str, session_id: str) -> int:
        workspace = self._live.get(workspace_id)
        return 0 if workspace is None else workspace.claims.attached_to(session_id)

    # Ending

    def _unclaimed(self, workspace_id: str) -> None:
        workspace = self._live.get(workspace_id)
        if workspace is None or not workspace.claims.is_empty:
            return
        if not workspace.outlive:
            self._begin_end(workspace_id)
        elif workspace_id not in self._watched:
            self._watched.add(workspace_id)
            self._tasks.start_soon(self._end_when_idle, workspace)

    async def _end_when_idle(self, workspace: Workspace) -> None:
        """With nobody attached, the workspace stays until its work is done, or somebody comes back."""
        try:
            while self._live.get(workspace.id) is workspace and workspace.claims.is_empty:
                if await self._has_work(workspace):
                    await anyio.sleep(JOB_CHECK_S)
                elif workspace.claims.is_empty:
                    # A prompt that is accepted in this very moment is kept for the next opening.
                    self._hosted[workspace.id].drop_queue = False
                    self._begin_end(workspace.id)
        finally:
            self._watched.discard(workspace.id)

    async def _has_work(self, workspace: Workspace) -> bool:
        try:
            return await workspace.has_work()
        except BullpenError as exc:
            log.warning("whether %s has work could not be told: %s", workspace.id, exc)
            return True

    def _begin_end(self, workspace_id: str) -> None:
        """From here on the workspace is not found any more."""
        self._live.pop(workspace_id, None)
        hosted = self._hosted.get(workspace_id)
        if hosted is not None:
            hosted.end.set()

    async def _until_gone(self, workspace_id: str) -> None:
        """If its end is decided, wait for it: whoever caused it is answered afterwards."""
        hosted = self._hosted.get(workspace_id)
        if hosted is not None and hosted.end.is_set():
            await hosted.over.wait()

    # Idle exit

    def _arm_idle_exit(self) -> None:
        self._stop_idle_timer()
        if self._idle_exit_s is None or self._exiting or self._hosted or self._pending:
            return
        wait_s = self._idle_exit_s if self._was_used else max(self._idle_exit_s, FIRST_USE_S)
        self._idle_timer = asyncio.get_running_loop().call_later(wait_s, self._leave)

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _leave(self) -> None:
        """The decision is final: creates that still come are told to go elsewhere."""
        self._exiting = True
        self._stop_idle_timer()
        self._on_exit()


def _innermost(exc: BaseException) -> BaseException:
    """A task group wraps what went wrong; callers want to know what it was."""
    while isinstance(exc, BaseExceptionGroup) and exc.exceptions:
        exc = exc.exceptions[0]
    return exc
