"""The outside tool servers (MCP) of one workspace: which there are, and what they offer.

Nothing is shared between workspaces. Servers are started side by side in the background; a slow one delays
nobody but those who call it. Whatever they offer is listed in the order of names, so that the same servers make
the same prompt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from bullpen.config.shape import McpServer
from bullpen.errors import BadRequest, ToolServerFailed
from bullpen.mcp.connection import Kind
from bullpen.mcp.logins import LoginBook, can_log_in
from bullpen.mcp.offers import Offers
from bullpen.mcp.pins import PinBook
from bullpen.mcp.results import resource_content, shorten
from bullpen.mcp.signing_in import SigningIn
from bullpen.mcp.supervisor import LEAVE_S, Supervisor
from bullpen.mcp.surroundings import Change, Surroundings
from bullpen.schema.agent import McpChanges, McpInfo, McpPrompt, McpPromptArgument, McpResource
from bullpen.schema.events import McpEvent
from bullpen.system.clock import Clock, SystemClock
from bullpen.tools.base import Tool

if TYPE_CHECKING:
    import mcp_types

CALL_S = 60.0
"""How long a tool of a server may be silent."""

RESTART_DELAY_S = 0.5
"""Before the second restart in a row; the pause grows by as much each time."""


class McpServers:
    """Made with the workspace. `reconcile` starts and ends servers, `close` ends all."""

    def __init__(
        self,
        *,
        root: Path,
        env: Mapping[str, str],
        announce: Callable[[McpEvent], None],
        pins: PinBook,
        logins: LoginBook,
        clock: Clock | None = None,
        call_timeout_s: float = CALL_S,
        restart_delay_s: float = RESTART_DELAY_S,
    ) -> None:
        self._announce = announce
        self._call_timeout_s = call_timeout_s
        self._surroundings = Surroundings(
            root=root,
            env=env,
            clock=clock or SystemClock(),
            restart_delay_s=restart_delay_s,
            pins=pins,
            logins=logins,
            changed=self._on_change,
        )
        self._supervisors: dict[str, Supervisor] = {}
        self._leaving: set[Supervisor] = set()
        self._offers = Offers(self._in_order, self._known, call_timeout_s=call_timeout_s)
        self._turned = anyio.Event()
        self._signing_in = SigningIn(logins, self._on_login)
        self._closed = False
        self._tasks: TaskGroup | None = None

    async def reconcile(
        self, servers: Mapping[str, McpServer], errors: Mapping[str, str], tasks: TaskGroup
    ) -> None:
        """Make the running servers those of the configuration. Returns at once; the work is done in `tasks`.

        `errors` are entries that cannot be used, with the reason. A server whose entry did not change goes on.
        """
        if self._closed:
            return
        self._tasks = tasks
        wanted = {**dict.fromkeys(errors, McpServer()), **servers}
        for name in self._supervisors.keys() - wanted.keys():
            self._drop(name)
        self._offers.names.know(wanted)
        for name in sorted(wanted):
            self._set(name, wanted[name], errors.get(name, ""))
        for supervisor in self._supervisors.values():
            if supervisor.is_waiting:
                tasks.start_soon(supervisor.look_again)

    @property
    def files(self) -> tuple[Path, ...]:
        """What people decided about servers, also elsewhere; when one of them changes, `reconcile` takes it up."""
        return self._surroundings.pins.file, self._surroundings.logins.file

    def states(self) -> dict[str, McpInfo]:
        return {name: supervisor.info() for name, supervisor in self._in_order()}

    def tools(self) -> dict[str, Tool]:
        """The tools of all servers by the names that models use."""
        return self._offers.tools()

    def prompts(self) -> list[McpPrompt]:
        return [_prompt(name, offered) for name, each in self._in_order() for offered in each.prompts]

    def resources(self) -> list[McpResource]:
        return [
            McpResource(
                name=name,
                uri=str(kept.uri),
                title=kept.title or kept.name,
                description=kept.description or "",
                mime_type=kept.mime_type or "",
                size=kept.size or 0,
            )
            for name, each in self._in_order()
            for kept in each.resources
        ]

    def instructions(self) -> list[tuple[str, str]]:
        """What connected servers want the model to know, by name of the server."""
        return [(name, each.instructions) for name, each in self._in_order() if each.instructions]

    async def get_prompt(self, server: str, prompt_id: str, args: Mapping[str, str]) -> str:
        """What a person would say: the text of the user's messages in the prompt.

        Raises `BadRequest` when there is no such server, or it is not connected, and `ToolServerFailed`.
        """
        result = await self._ask(server, lambda client: client.get_prompt(prompt_id, dict(args)))
        said = [text for m in result.messages if m.role == "user" and (text := _words(m.content))]
        return shorten("\n".join(said))

    async def read_resource(self, server: str, uri: str) -> list[dict[str, Any]]:
        """The parts of a resource. Raises as `get_prompt` does."""
        result = await self._ask(server, lambda client: client.read_resource(uri))
        return [resource_content(each) for each in result.contents]

    async def refresh(self, kind: Kind, name: str) -> None:
        """Read a list of a server again; one that is in error is tried again.

        Raises `ToolServerFailed`, and `BadRequest` for tools of an unknown server; the wire knows no such error for
        prompts and resources.
        """
        supervisor = self._supervisors.get(name)
        if supervisor is not None:
            await supervisor.refresh(kind)
        elif kind == "tools":
            raise _unknown(name)

    async def changes(self) -> list[McpChanges]:
        """What servers say and nobody has accepted, by server."""
        found = [await supervisor.changes() for _, supervisor in self._in_order() if supervisor.guard.held]
        return [each for each in found if each.changes]

    async def accept(self, name: str, fingerprint: str) -> None:
        """Let a server say what it says now. Raises `ContentChanged` when that is not what was seen, `BadRequest`."""
        await self._known(name).accept(fingerprint)

    def restart(self, name: str) -> None:
        """End a server and start it again, alone. Raises `BadRequest` when there is none, or it is switched off."""
        old = self._known(name)
        if old.server.disabled:
            raise BadRequest(
                f"the MCP server {name!r} is disabled; 'bullpen mcp enable {name}' switches it on"
            )
        if old.config_error:
            raise BadRequest(f"the MCP server {name!r} is not configured well: {old.config_error}")
        self._replace(name, old.server, "")

    def pending_logins(self) -> list[tuple[str, str]]:
        """The servers that somebody has to log in to, with the address for it when a login is under way."""
        return [
            (name, self._signing_in.url(name))
            for name, each in self._in_order()
            if can_log_in(each.server) and (each.state == "needs auth" or self._signing_in.url(name))
        ]

    def login_url(self, name: str) -> str:
        return self._signing_in.url(name)

    async def log_in(self, name: str) -> None:
        """Until a person has logged in; then the server is started with it. Raises `BadRequest`, `ToolServerFailed`."""
        supervisor = self._known(name)
        if self._tasks is not None:
            await self._signing_in.log_in(name, supervisor.server, self._tasks)
        if self._supervisors.get(name) is supervisor and supervisor.is_startable:
            self._replace(name, supervisor.server, "")

    async def log_out(self, name: str) -> bool:
        """Forget the login, and start the server without it; whether there was one. Raises `BadRequest`."""
        supervisor = self._known(name)
        was = await self._signing_in.log_out(supervisor.server)
        if was and self._supervisors.get(name) is supervisor and supervisor.is_startable:
            self._replace(name, supervisor.server, "")
        return was

    async def settled(self) -> None:
        """Until no server is starting."""
        while any(each.state == "starting" for each in self._supervisors.values()):
            await self._turned.wait()

    async def close(self) -> None:
        """End all servers and what they started. Takes some two seconds at most, also when cancelled."""
        self._closed = True
        for each in self._supervisors.values():
            self._leave(each)
        self._supervisors.clear()
        self._wake()
        with anyio.move_on_after(LEAVE_S, shield=True):
            for each in list(self._leaving):
                await each.ended.wait()

    def _in_order(self) -> list[tuple[str, Supervisor]]:
        return sorted(self._supervisors.items())

    def _set(self, name: str, server: McpServer, error: str) -> None:
        old = self._supervisors.get(name)
        if old is not None:
            if old.server == server and old.config_error == error:
                return
            if not error and not old.config_error and _unfiltered(old.server) == _unfiltered(server):
                old.filter(server)
                return
        self._replace(name, server, error)

    def _replace(self, name: str, server: McpServer, error: str) -> None:
        """Start it anew; whatever there was of that name ends first."""
        old = self._supervisors.get(name)
        if old is not None:
            self._leave(old)
        new = Supervisor(name, server, self._surroundings, error=error)
        self._supervisors[name] = new
        if new.is_startable and self._tasks is not None:
            self._tasks.start_soon(new.run, old, name=f"MCP server {name}")
        self._on_change(new, "state_changed")

    def _drop(self, name: str) -> None:
        old = self._supervisors.pop(name)
        self._leave(old)
        self._wake()
        self._announce(McpEvent(type="state_changed", name=name, state="disabled"))

    def _leave(self, old: Supervisor) -> None:
        old.stop()
        self._leaving = {each for each in self._leaving if not each.ended.is_set()} | {old}

    def _on_login(self, name: str) -> None:
        if name in self._supervisors:
            self._on_change(self._supervisors[name], "state_changed")

    def _on_change(self, supervisor: Supervisor, change: Change) -> None:
        self._wake()
        self._announce(supervisor.event(change))

    def _wake(self) -> None:
        self._offers.forget()
        turned, self._turned = self._turned, anyio.Event()
        turned.set()

    def _known(self, name: str) -> Supervisor:
        supervisor = self._supervisors.get(name)
        if supervisor is None:
            raise _unknown(name)
        return supervisor

    async def _ask(self, name: str, request: Callable[[Any], Awaitable[Any]]) -> Any:
        supervisor = self._known(name)
        connection = await supervisor.ready()
        try:
            return await connection.ask(request, timeout_s=self._call_timeout_s)
        except ToolServerFailed as exc:
            words = supervisor.tidy(str(exc))
            raise ToolServerFailed(f"the MCP server {name!r} failed: {words}", is_lost=exc.is_lost) from exc


def _unknown(name: str) -> BadRequest:
    return BadRequest(f"there is no MCP server {name!r} in this workspace")


def _unfiltered(server: McpServer) -> McpServer:
    return msgspec.structs.replace(server, enabled_tools=(), disabled_tools=())


def _words(content: Any) -> str:
    """The text of a part of a prompt; what stands in a resource that came with it counts too."""
    text = getattr(content.resource if content.type == "resource" else content, "text", None)
    return text if isinstance(text, str) else ""


def _prompt(server: str, offered: mcp_types.Prompt) -> McpPrompt:
    return McpPrompt(
        id=f"{server}:{offered.name}",
        title=offered.title or "",
        description=offered.description or "",
        prompt_id=offered.name,
        client_id=server,
        arguments=tuple(
            McpPromptArgument(
                id=argument.name,
                title=argument.title or argument.name,
                description=argument.description or "",
                required=bool(argument.required),
            )
            for argument in offered.arguments or ()
        ),
    )
