"""What servers offer, as tools for the model: named so that none passes for another, described in words that were
accepted, and called with a limit that a server which reports progress can stretch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from bullpen.asks.display import visible
from bullpen.errors import BadRequest, ToolFailed, ToolServerFailed
from bullpen.mcp.connection import Connection
from bullpen.mcp.names import ToolNames
from bullpen.mcp.parameters import parameters_of
from bullpen.mcp.resources import resource_tools
from bullpen.mcp.results import outcome_of, shorten
from bullpen.mcp.supervisor import Supervisor
from bullpen.tools.base import Outcome, Tool, ToolContext

if TYPE_CHECKING:
    import mcp_types

    Kept = tuple[list[mcp_types.Resource], list[mcp_types.ResourceTemplate]]

T = TypeVar("T")

LONGEST_S = 600.0
"""How long a call may take at most, however often the server says that it goes on."""

DESCRIPTION_BYTES = 8_000

OFFER_BYTES = 400_000
"""Of one server's tools together: they are sent with every request. What comes after that is left out."""


class Offers:
    """`servers` gives those that there are, in the order of their names; `find` raises `BadRequest`."""

    def __init__(
        self,
        servers: Callable[[], list[tuple[str, Supervisor]]],
        find: Callable[[str], Supervisor],
        *,
        call_timeout_s: float,
    ) -> None:
        self._servers = servers
        self._find = find
        self._call_timeout_s = call_timeout_s
        self._tools: dict[str, Tool] | None = None
        self.names = ToolNames()

    def forget(self) -> None:
        """Something has changed."""
        self._tools = None

    def tools(self) -> dict[str, Tool]:
        """The tools of all servers by the names that models use."""
        if self._tools is None:
            found = [tool for _, supervisor in self._servers() for tool in self._tools_of(supervisor)]
            keeping = [visible(name) for name, supervisor in self._servers() if supervisor.keeps_resources]
            if keeping:
                found += resource_tools(self._list_resources, self._read, ", ".join(keeping))
            self._tools = {tool.name: tool for tool in sorted(found, key=lambda tool: tool.name)}
        return dict(self._tools)

    def _tools_of(self, supervisor: Supervisor) -> list[Tool]:
        found: list[Tool] = []
        left = OFFER_BYTES
        for offered in supervisor.offered_tools():
            tool = self._tool(supervisor, offered)
            left -= len(tool.description) + len(str(tool.schema))
            if left < 0:
                supervisor.warn_once(
                    f"offers more than {OFFER_BYTES} bytes of tools; {offered.name} and others are left out"
                )
                break
            found.append(tool)
        return found

    def _tool(self, supervisor: Supervisor, offered: mcp_types.Tool) -> Tool:
        server, own_name, mark = supervisor.name, offered.name, supervisor.guard.mark(offered.name)

        async def run(arguments: dict[str, Any], ctx: ToolContext) -> Outcome:
            await ctx.permit(
                "execute",
                description=f"Run {own_name} of the MCP server {server}",
                params=arguments,
                path=ctx.root,
            )
            result = await self._answered(
                server, lambda found, line: self._call(found, line, own_name, mark, arguments), "call"
            )
            return outcome_of(result, supports_media=ctx.supports_images)

        description = offered.description or offered.title or own_name
        return Tool(
            name=self.names.name(server, own_name),
            description=shorten(visible(description), DESCRIPTION_BYTES),
            params=dict[str, Any],
            schema=parameters_of(offered.input_schema),
            run=run,
            # What a server says about its own harmlessness is only a claim.
            effects=True,
        )

    async def _call(
        self, supervisor: Supervisor, connection: Connection, tool: str, mark: str, arguments: dict[str, Any]
    ) -> mcp_types.CallToolResult:
        if not supervisor.guard.lets(tool, mark):
            raise ToolFailed(
                f"{tool} of the MCP server {supervisor.name!r} says something else now than when it was offered, so it "
                f"was not called. A person has to look at it: bullpen mcp accept {supervisor.name}"
            )
        return await connection.call_tool(
            tool, arguments, timeout_s=self._call_timeout_s, longest_s=max(LONGEST_S, self._call_timeout_s)
        )

    async def _list_resources(self, server: str) -> Kept:
        async def both(_: Supervisor, connection: Connection) -> Kept:
            return await connection.ask(lambda _: connection.kept(), timeout_s=self._call_timeout_s)

        return await self._answered(server, both, "")

    async def _read(self, server: str, request: Callable[[Any], Awaitable[Any]]) -> Any:
        async def read(_: Supervisor, connection: Connection) -> Any:
            return await connection.ask(request, timeout_s=self._call_timeout_s)

        return await self._answered(server, read, "")

    async def _answered(
        self, server: str, request: Callable[[Supervisor, Connection], Awaitable[T]], effect: str
    ) -> T:
        """Raises `ToolFailed`, in words for the model; `effect` is what may have happened although no answer came."""
        try:
            supervisor = self._find(server)
            connection = await supervisor.ready()
        except BadRequest as exc:
            raise ToolFailed(str(exc)) from exc
        try:
            return await request(supervisor, connection)
        except ToolServerFailed as exc:
            doubt = f"; whether the {effect} had an effect is not known" if exc.is_lost and effect else ""
            raise ToolFailed(f"the MCP server {server!r} failed: {supervisor.tidy(str(exc))}{doubt}") from exc
