"""Keeps one server: connects, holds the connection, starts again what died, and knows what state all that is in.

A server that cannot be reached at the first attempt is left alone, with the reason, until somebody asks for it
again. One that worked and went away is started again, within the limits of `restarts`.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec

from bullpen.asks.display import visible
from bullpen.config.shape import McpServer
from bullpen.errors import BadRequest, ToolServerFailed, ToolServerNotStarted
from bullpen.mcp.connection import KINDS, Connection, Kind, connected, line_to, load_library, reason_of
from bullpen.mcp.guard import Guard
from bullpen.mcp.logins import can_log_in, login_key
from bullpen.mcp.restarts import RESTARTS, RESTARTS_S, Restarts
from bullpen.mcp.results import shorten
from bullpen.mcp.surroundings import Change, State, Surroundings
from bullpen.schema.agent import ZERO_TIME, McpChanges, McpInfo, rfc3339
from bullpen.schema.events import McpEvent

if TYPE_CHECKING:
    from mcp_types import Prompt, Resource, Tool

CONNECT_S = 10.0
CONNECT_OAUTH_S = 30.0
"""A person may have to look at something first."""

LEAVE_S = 5.0
"""A limit for what should take a server two seconds at most: to be gone."""

REFRESH_PAUSE_S = 0.1
"""Between two readings of a list, however often a server says that it changed; doubled while it says so all the time."""

REFRESH_LONGEST_S = 30.0

ERROR_BYTES = 2_000
INSTRUCTIONS_BYTES = 16_000

_CHANGE_OF: dict[Kind, Change] = {
    "tools": "tools_list_changed",
    "prompts": "prompts_list_changed",
    "resources": "resources_list_changed",
}

log = logging.getLogger(__name__)


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How one connection, or the attempt at one, ended."""

    why: str
    was_up: bool = False
    needs_auth: bool = False
    is_foreign: bool = False
    """The server did not understand how it was greeted."""


class Supervisor:
    """One server. `run` does the work, in a task of its own; the rest may be called from anywhere."""

    def __init__(self, name: str, server: McpServer, surroundings: Surroundings, *, error: str = "") -> None:
        """With an `error` the configuration is of no use, and the server is only listed."""
        self.name = name
        self.server = server
        self.config_error = error
        self.ended = anyio.Event()
        self.tools: list[Tool] = []
        self.prompts: list[Prompt] = []
        self.resources: list[Resource] = []
        self.guard = Guard(surroundings.pins, name, server)
        self._instructions = ""
        self._with = surroundings
        self._scope = anyio.CancelScope()
        self._stopped = False
        self._state: State = "error" if error else "disabled" if server.disabled else "starting"
        self._error = error
        self._connected_at = ZERO_TIME
        self._connection: Connection | None = None
        self._turned = anyio.Event()
        self._told = anyio.Event()
        self._stale: set[Kind] = set()
        self._restarts = Restarts(surroundings.clock)
        self._warned: set[str] = set()
        if not self.is_startable:
            self.ended.set()

    @property
    def is_startable(self) -> bool:
        """Whether the configuration wants it to run, and says how."""
        return not self.config_error and not self.server.disabled

    @property
    def state(self) -> State:
        return self._state

    @property
    def timeout_s(self) -> float:
        """For connecting, and for reading lists."""
        return self.server.timeout or (CONNECT_OAUTH_S if self.server.oauth else CONNECT_S)

    def info(self) -> McpInfo:
        return McpInfo(
            name=self.name,
            state=self._state,
            error=self._error,
            tool_count=len(self.offered_tools()),
            prompt_count=len(self.prompts),
            resource_count=len(self.resources),
            held_count=len(self.guard.held),
            connected_at=self._connected_at,
        )

    def event(self, change: Change) -> McpEvent:
        return McpEvent(
            type=change,
            name=self.name,
            state=self._state,
            error=self._error,
            tool_count=len(self.offered_tools()),
            prompt_count=len(self.prompts),
            resource_count=len(self.resources),
            held_count=len(self.guard.held),
        )

    def offered_tools(self) -> list[Tool]:
        """The tools that the configuration lets through, and that say what was accepted."""
        allowed, denied = self.server.enabled_tools, self.server.disabled_tools
        return [
            tool
            for tool in self.tools
            if (not allowed or tool.name in allowed)
            and tool.name not in denied
            and self.guard.lets(tool.name)
        ]

    @property
    def instructions(self) -> str:
        """What the server wants the model to know, if that was accepted."""
        if not self._instructions or not self.guard.lets_instructions:
            return ""
        return shorten(visible(self._instructions), INSTRUCTIONS_BYTES)

    @property
    def keeps_resources(self) -> bool:
        """Whether it has something that can be read."""
        return self._connection is not None and self._connection.has_resources

    def warn_once(self, words: str) -> None:
        if words not in self._warned:
            self._warned.add(words)
            log.warning("the MCP server %s %s", self.name, words)

    async def changes(self) -> McpChanges:
        """What waits for a person; announces it when they have accepted it elsewhere."""
        before = self.guard.held
        found = await self.guard.changes()
        if self.guard.held != before:
            self._announce("tools_list_changed")
        return found

    @property
    def is_waiting(self) -> bool:
        """Whether something here waits for a person, who may do it elsewhere."""
        return bool(self.guard.held) or self._state == "needs auth"

    async def look_again(self) -> None:
        """Take up what a person accepted, or logged in to, in another workspace or process."""
        await self.changes()
        if self._state == "needs auth" and can_log_in(self.server):
            login = await anyio.to_thread.run_sync(self._with.logins.read, login_key(self.server))
            if login is not None:
                self.ask_again("tools")

    async def accept(self, fingerprint: str) -> None:
        """Raises `ContentChanged`, `ConfigError`."""
        await self.guard.accept(fingerprint)
        self._announce("tools_list_changed")

    def filter(self, server: McpServer) -> None:
        """Take over a configuration that differs in what it lets through, and in nothing else."""
        self.server = server
        self._with.changed(self, "tools_list_changed")

    def stop(self) -> None:
        """End the server; `ended` tells when it has. Nothing is announced any more."""
        self._stopped = True
        self._scope.cancel()

    def ask_again(self, kind: Kind) -> None:
        """Try a server again that is in error."""
        if self._state in ("error", "needs auth"):
            self._tell(kind)

    async def ready(self) -> Connection:
        """The connection, as soon as it is there. Raises `BadRequest` when it will not be, or takes too long."""
        with anyio.move_on_after(self.timeout_s):
            while self._state == "starting" or (self._connection and self._connection.lost.is_set()):
                await self._turned.wait()
        if self._connection is None:
            why = f": {self._error}" if self._error else ""
            raise BadRequest(f"the MCP server {self.name!r} is not connected ({self._state}{why})")
        return self._connection

    async def refresh(self, kind: Kind) -> None:
        """Read one of its lists again. Raises `ToolServerFailed`."""
        connection = self._connection
        if connection is None:
            self.ask_again(kind)
            return
        await connection.ask(lambda _: self._read(connection, kind), timeout_s=self.timeout_s)

    async def run(self, after: Supervisor | None = None) -> None:
        """Until `stop`. `after` is the one whose place this takes: two of one name do not run side by side."""
        try:
            if after is not None:
                with anyio.move_on_after(LEAVE_S, shield=True):
                    await after.ended.wait()
            with self._scope:
                await self._keep()
        finally:
            self._stopped = True
            self._turn("disabled")
            self.ended.set()

    async def _keep(self) -> None:
        worked = False
        while True:
            end = await self._attempt()
            worked = worked or end.was_up
            if worked and not end.needs_auth and (number := self._restarts.begin()) >= 0:
                log.info("the MCP server %s %s; it is started again", self.name, end.why)
                self._turn("starting")
                await anyio.sleep(self._with.restart_delay_s * number)
                continue
            why = end.why
            if worked and not end.needs_auth:
                why = f"stopped after {RESTARTS} restarts in {RESTARTS_S / 60:g} minutes; the last time it {why}"
            log.warning("the MCP server %s is not connected: %s", self.name, why)
            await self._rest("needs auth" if end.needs_auth else "error", why)
            worked = False

    async def _rest(self, state: State, why: str) -> None:
        """In error, until somebody wants it again."""
        self.tools, self.prompts, self.resources, self._instructions = [], [], [], ""
        self.guard = Guard(self._with.pins, self.name, self.server)
        self._told = anyio.Event()
        self._turn(state, why)
        await self._told.wait()
        self._restarts.forgive()
        self._turn("starting")

    async def _attempt(self) -> Ended:
        """Connect and stay connected for as long as it lasts."""
        await load_library()
        # An old server may take the new greeting for an error and leave, so a child is first greeted in the old
        # way, which most new ones understand too.
        is_child = self.server.type == "stdio"
        end = await self._converse("legacy" if is_child else "auto")
        if end.is_foreign and is_child:
            end = await self._converse("auto")
        return end

    async def _converse(self, mode: str) -> Ended:
        try:
            line = line_to(self.server, root=self._with.root, env=self._with.env, logins=self._with.logins)
        except ToolServerNotStarted as exc:
            return Ended(why=str(exc))
        failure = ToolServerFailed("closed the connection", is_lost=True)
        was_up = False
        self._stale.clear()
        with anyio.CancelScope(deadline=anyio.current_time() + self.timeout_s) as limit:
            try:
                async with connected(line, mode, self._tell) as connection:
                    await self._greet(connection)
                    limit.deadline = math.inf
                    was_up = True
                    await self._hold(connection)
            except Exception as exc:
                # Whatever a server or the library comes up with must not end the workspace.
                log.debug("the MCP server %s failed", self.name, exc_info=True)
                failure = reason_of(exc)
            finally:
                self._connection = None
        if limit.cancelled_caught:
            failure = ToolServerFailed(f"did not answer within {self.timeout_s:g} s")
        if line.needs_auth:
            return Ended(why=self._login_advice(), was_up=was_up, needs_auth=True)
        story = line.story()
        known = [story] if story and failure.is_lost else [str(failure), story]
        return Ended(
            why=self.tidy(": ".join(part for part in known if part)),
            was_up=was_up,
            is_foreign=failure.is_foreign and not was_up,
        )

    def _login_advice(self) -> str:
        if can_log_in(self.server):
            return f"a login is needed: bullpen mcp login {self.name}"
        return "the Authorization header of the configuration is refused (HTTP status 401)"

    async def _greet(self, connection: Connection) -> None:
        """Read what has to be known before the server counts as connected."""
        tools, self._instructions = _distinct(await connection.tools()), connection.instructions
        await self.guard.look(tools, self._instructions)
        self.tools = tools
        try:
            self.prompts = await connection.prompts()
        except ToolServerFailed as exc:
            log.warning("the prompts of the MCP server %s cannot be listed: %s", self.name, exc)
            self.prompts = []

    async def _hold(self, connection: Connection) -> None:
        self._connection = connection
        self._connected_at = rfc3339(self._with.clock.time())
        # Only their number is shown, so nobody waits for them.
        self._tell("resources")
        self._turn("connected")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._refresh_what_changed, connection)
            tasks.start_soon(connection.listen, self._tell_all)
            await connection.lost.wait()
            tasks.cancel_scope.cancel()

    async def _refresh_what_changed(self, connection: Connection) -> None:
        pause_s = REFRESH_PAUSE_S
        while True:
            await self._told.wait()
            self._told = anyio.Event()
            stale, self._stale = sorted(self._stale), set()
            for kind in stale:
                try:
                    await self.refresh(kind)
                except ToolServerFailed as exc:
                    if not exc.is_lost:
                        log.warning("the %s of the MCP server %s cannot be listed: %s", kind, self.name, exc)
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 2, REFRESH_LONGEST_S) if self._told.is_set() else REFRESH_PAUSE_S

    async def _read(self, connection: Connection, kind: Kind) -> None:
        """Only a list that is another one now is announced."""
        found: list[Any] = await getattr(connection, kind)()
        if kind == "tools":
            found = _distinct(found)
        if self._connection is not connection or found == getattr(self, kind):
            return
        if kind == "tools":
            await self.guard.look(found, self._instructions)
        if self._connection is connection:
            setattr(self, kind, found)
            self._announce(_CHANGE_OF[kind])

    def _tell(self, kind: Kind) -> None:
        self._stale.add(kind)
        self._told.set()

    def _tell_all(self) -> None:
        for kind in KINDS:
            self._tell(kind)

    def _turn(self, state: State, error: str = "") -> None:
        self._state, self._error = state, error
        if state != "connected":
            self._connected_at = ZERO_TIME
        turned, self._turned = self._turned, anyio.Event()
        turned.set()
        self._announce("state_changed")

    def _announce(self, change: Change) -> None:
        if not self._stopped:
            self._with.changed(self, change)

    def tidy(self, why: str) -> str:
        """Short, and without what the configuration holds of secrets."""
        entry = self.server
        if entry.url:
            why = why.replace(entry.url, entry.url.partition("?")[0])
        for secret in (*entry.env.values(), *entry.headers.values(), entry.oauth_client_secret):
            if len(secret) >= 6:
                why = why.replace(secret, "[hidden]")
        return shorten(why, ERROR_BYTES)


def _distinct(tools: list[Tool]) -> list[Tool]:
    """One tool per name, the first: a second one would be called in its place."""
    return list({tool.name: tool for tool in reversed(tools) if tool.name}.values())[::-1]
