"""The language servers of one workspace: which there are, which a file wants, and what tools ask of them.

Nothing is shared between workspaces, and nothing starts before a tool touches a file that a server knows. A server of
the catalogue starts by itself when its program is installed, the workspace has one of its marks, and it is not one
that runs what it finds in a repository, unless that is trusted. What a person configured starts for any file it is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from bullpen.errors import LanguageServerFailed, LanguageServerNotFound, ToolFailed
from bullpen.lsp import checking, diagnostics, wording
from bullpen.lsp.checking import Baseline, Patience
from bullpen.lsp.client import Client
from bullpen.lsp.diagnostics import Found
from bullpen.lsp.documents import DELETED, Document, path_of, read_text, uri_of
from bullpen.lsp.known import language_of
from bullpen.lsp.plan import Plan
from bullpen.lsp.scan import Scan
from bullpen.lsp.selection import Following, Selection
from bullpen.lsp.server import AGAIN_S, ERROR, READY, STARTING, Server, Surroundings
from bullpen.schema.agent import LspInfo
from bullpen.schema.events import LspEvent
from bullpen.system import paths
from bullpen.system.clock import Clock, SystemClock
from bullpen.system.coalesce import Coalesced
from bullpen.system.processes import Processes

MAX_TEXT_BYTES = 2 * 1024 * 1024
"""A file past this is data, and no server is troubled with it."""

RESTART_DELAY_S = 0.5

ALL_S = 30.0
"""For all files that are open, together."""

LOOK_S = 1.0
"""How long somebody waits until servers have been told what became of other files. It is told them all the same, later."""


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """How long somebody waits for servers that run: before and after a change, after a look, and when that is what was
    asked for. For one that is still starting only the last waits, `start_s` at most."""

    before: Patience = Patience(2.0, 2.0)
    change: Patience = Patience(5.0, 2.0)
    view: Patience = Patience(0.3, 0.3)
    ask: Patience = Patience(15.0, 3.0)
    start_s: float = 30.0


class LspServers:
    """Made with the workspace. `follow` takes a configuration up, `close` ends all."""

    def __init__(
        self,
        *,
        root: Path,
        env: Mapping[str, str],
        announce: Callable[[LspEvent], None],
        processes: Processes,
        clock: Clock | None = None,
        waits: Waits | None = None,
        restart_delay_s: float = RESTART_DELAY_S,
        again_s: float = AGAIN_S,
    ) -> None:
        self.root = paths.real(root)
        self._waits = waits or Waits()
        self._clock = clock or SystemClock()
        self._surroundings = Surroundings(
            root=self.root,
            env=env,
            clock=self._clock,
            processes=processes,
            announce=announce,
            restart_delay_s=restart_delay_s,
            again_s=again_s,
        )
        self.selection = Selection(self.root, env, self._clock, again_s=again_s)
        self._servers: dict[str, Server] = {}
        self._tasks: TaskGroup | None = None
        self._scan = Scan(self.root, self.selection.is_watched)
        self._look = Coalesced(self._look_around)

    def follow(self, following: Following, tasks: TaskGroup) -> None:
        """Take a configuration up. Servers that it changes are ended, and start anew when they are next wanted."""
        before, self._tasks = self.selection.following, tasks
        self.selection.follow(following)
        same = msgspec.structs.replace(before, plans={}) == msgspec.structs.replace(following, plans={})
        for name, server in list(self._servers.items()):
            if not same or before.plans.get(name) != following.plans.get(name):
                server.dismiss()
                tasks.start_soon(server.stop)
                del self._servers[name]
        for name in sorted(following.plans.keys() - self._servers.keys()):
            self._servers[name] = self._new(following.plans[name])

    def states(self) -> dict[str, LspInfo]:
        return {name: server.info() for name, server in sorted(self._servers.items())}

    def diagnostics(self, name: str) -> dict[str, list[dict[str, Any]]]:
        """What a server complains about, as it says it. Raises `LanguageServerNotFound` unless it runs."""
        server = self._servers.get(name)
        if server is None or server.client is None:
            raise LanguageServerNotFound(name)
        return server.client.complaints.by_uri()

    async def start(self, path: Path) -> None:
        """Start what knows a file; what was given up gets another chance."""
        for server in await self._wanted(path):
            if server.state == ERROR:
                server.forgive()
                self._want(server)

    async def stop(self) -> None:
        """End all; they start again when they are wanted."""
        async with anyio.create_task_group() as ending:
            for server in self._servers.values():
                ending.start_soon(server.stop)

    async def restart(self, name: str = "") -> dict[str, str]:
        """End servers and start them again: one, or all that have been started. Says of each what is wrong with it."""
        chosen = [
            server
            for server in self._servers.values()
            if (server.name == name if name else server.state in (READY, STARTING, ERROR))
        ]
        for server in chosen:
            await server.stop()
            server.forgive()
            self._want(server)
        return {server.name: await self._trouble(server) for server in chosen}

    async def close(self) -> None:
        self._tasks = None
        with anyio.CancelScope(shield=True):
            for server in self._servers.values():
                server.dismiss()
            await self.stop()

    # What tools ask

    async def before_change(self, path: Path) -> dict[str, Baseline]:
        """What running servers say of a file that is about to be changed, to be given to `after_change`."""
        servers = [server for server in await self._wanted(path) if server.client is not None]
        real = paths.real(path)
        text = await self._text(real) if servers else None
        known: dict[str, Baseline] = {}

        async def look(server: Server) -> None:
            if text is not None:
                await self._check(server, real, text, self._waits.before)
            if server.client is not None:
                known[server.name] = checking.baseline(server.client, real)
                if not real.exists():
                    known[server.name] = known[server.name]._replace(text="")

        async with anyio.create_task_group() as tasks:
            for server in servers:
                tasks.start_soon(look, server)
        return known

    async def after_change(self, path: Path, before: Mapping[str, Baseline]) -> str:
        """What a change of a file did, in words; waits a moment for running servers. Empty without any."""
        await self._tell_of_others()
        found, silent = await self._hear(path, self._waits.change)
        real = paths.real(path)
        text = await self._text(real) if found else None
        return wording.after_change(real, self.root, text or "", before, found, silent)

    async def after_view(self, path: Path) -> str:
        """What is wrong with a file that somebody looks at, as far as it is known at once."""
        found, _ = await self._hear(path, self._waits.view)
        return wording.after_view(paths.real(path), self.root, diagnostics.merged(found.values()))

    async def complaints(self, path: Path | None) -> str:
        """All complaints. A file is checked anew; without one, all that is open is. Raises `ToolFailed`."""
        if path is not None:
            servers = await self._wanted(path)
            troubles = [await self._trouble(server) for server in servers]
            if all(troubles):
                raise ToolFailed("; ".join(troubles) or self.selection.reason(path))
        await self._tell_of_others()
        silent: set[str] = set()
        with anyio.move_on_after(ALL_S) as scope:
            for each in [path] if path is not None else self._open_files():
                _, late = await self._hear(each, self._waits.ask, anew=True)
                silent.update(late)
        if scope.cancelled_caught:
            silent.update(server.name for server in self._servers.values() if server.client is not None)
        found = diagnostics.merged(checking.complaints_of(client) for client in self._clients())
        return wording.in_full(path and paths.real(path), self.root, found, sorted(silent))

    async def open(self, path: Path, method: str) -> tuple[Client, Document]:
        """A server that knows a method, with the file open. Raises `ToolFailed` with the next step."""
        real = paths.real(path)
        text = await self._text(real)
        if text is None:
            raise ToolFailed(f"{path} is no text file, or too large for a language server")
        servers = await self._wanted(path)
        failures = [trouble for server in servers if (trouble := await self._trouble(server))]
        await self._tell_of_others()
        for server in servers:
            if server.client is not None and server.client.can(method):
                document = server.client.documents.tell(uri_of(real), language_of(real.name), text)
                return server.client, document
        raise ToolFailed("; ".join(failures) or self.selection.reason(path))

    async def show(self, client: Client, files: Iterable[Path]) -> None:
        """Open files at a server, so that it knows them even if it has not found them by itself yet."""
        plans = [server.plan for server in self._servers.values() if server.client is client]
        for path in files:
            text = await self._text(path) if any(each.knows(path) for each in plans) else None
            if text is not None:
                client.documents.tell(uri_of(path), language_of(path.name), text)

    # Inside

    def _clients(self) -> list[Client]:
        return [server.client for server in self._servers.values() if server.client is not None]

    async def _text(self, real: Path) -> str | None:
        return await anyio.to_thread.run_sync(read_text, real, MAX_TEXT_BYTES)

    async def _hear(
        self, path: Path, patience: Patience, *, anew: bool = False
    ) -> tuple[dict[str, Found], list[str]]:
        """What each server says of a file, and the names of those that did not answer in time."""
        servers = await self._wanted(path)
        real = paths.real(path)
        text = await self._text(real) if servers else None
        if text is None:
            return {}, []
        found: dict[str, Found] = {}
        silent: list[str] = []

        async def hear(server: Server) -> None:
            if await self._check(server, real, text, patience, anew=anew) and server.client is not None:
                found[server.name] = checking.complaints_of(server.client)
            elif server.state in (STARTING, READY):
                # One in error has said so already, in its state; this one will answer later.
                silent.append(server.name)

        async with anyio.create_task_group() as tasks:
            for server in servers:
                tasks.start_soon(hear, server)
        return dict(sorted(found.items())), sorted(silent)

    async def _check(
        self, server: Server, real: Path, text: str, patience: Patience, *, anew: bool = False
    ) -> bool:
        if server.client is None:
            return False
        try:
            return await checking.check(server.client, real, text, patience, anew=anew)
        except LanguageServerFailed:
            return False
        finally:
            server.touch()

    async def _wanted(self, path: Path) -> list[Server]:
        """The servers for a file of the workspace, on their way if they were not running. Waits for none."""
        real = paths.real(path)
        if self._tasks is None or not real.is_relative_to(self.root):
            return []
        fitting = await anyio.to_thread.run_sync(self.selection.fitting, real, self._servers)
        if fitting and not self._clients() and self._tasks is not None:
            # What changes from now on is told; what is there now, servers read for themselves.
            self._tasks.start_soon(self._look)
        for found in fitting:
            if found.name not in self._servers:
                self._servers[found.name] = self._new(found)
        servers = [self._servers[found.name] for found in fitting]
        for server in servers:
            self._want(server)
        return servers

    def _new(self, found: Plan) -> Server:
        following = self.selection.following
        return Server(found, self._surroundings, idle_s=following.idle_s, is_logged=following.is_logged)

    def _want(self, server: Server) -> None:
        if self._tasks is not None:
            server.want(self._tasks)

    async def _trouble(self, server: Server) -> str:
        """Waits until a server is ready. Gives back what is wrong with it, or nothing."""
        try:
            await server.ready(timeout_s=self._waits.start_s)
        except LanguageServerFailed as exc:
            return str(exc)
        return ""

    async def _tell_of_others(self) -> None:
        """Wait until running servers know what became of other files, but not for long."""
        if self._clients():
            with anyio.move_on_after(LOOK_S):
                await self._look()

    async def _look_around(self) -> None:
        """Tell servers what became of files since the last look; those that are open are read anew."""
        changes = await anyio.to_thread.run_sync(self._scan.changes)
        for client in self._clients() if changes else ():
            for path, kind in changes:
                uri = uri_of(path)
                if client.documents.get(uri) is None:
                    continue
                text = None if kind == DELETED else await self._text(path)
                if text is None:
                    client.documents.close(uri)
                    client.complaints.forget(uri)
                else:
                    client.documents.tell(uri, language_of(path.name), text)
            client.documents.announce([(uri_of(path), kind) for path, kind in changes])

    def _open_files(self) -> list[Path]:
        uris = {uri for client in self._clients() for uri in client.documents.uris()}
        return sorted(path for uri in uris if (path := path_of(uri)) is not None)
