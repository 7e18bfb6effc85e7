"""Tool servers and language servers: how they are, what they last complained about, and what can be done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec
from textual.binding import Binding, BindingType

from bullpen.errors import BadRequest
from bullpen.present.inert import inert, inert_line
from bullpen.schema.agent import LspInfo, McpChanges, McpInfo
from bullpen.schema.api import McpAccept, McpName
from bullpen.schema.events import Event, LspEvent, McpEvent
from bullpen.tui.dialogs.keyed import Confirm
from bullpen.tui.dialogs.picker import Choices, Picker
from bullpen.tui.dialogs.rows import Option
from bullpen.tui.dialogs.viewer import Viewer
from bullpen.tui.facts import LSP_STATES

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

LOGIN_S = 300.0
"""So long a person may take to log in with a browser."""


class SignIn(msgspec.Struct):
    """Where to sign in to a tool server."""

    name: str = ""
    url: str = ""


class ToolServers(Picker):
    """One row for each; enter says what can be done."""

    place = "Tool servers"

    def __init__(self, room: Room) -> None:
        super().__init__(
            "Tool servers",
            hint="enter what can be done  esc close",
            empty="no tool servers are configured: docs/mcp.md says how",
        )
        self._room = room
        self._states: dict[str, McpInfo] = {}

    async def options(self) -> Sequence[Option]:
        self._states = (await self._room.call("GET", "/mcp/states")).read(dict[str, McpInfo])
        return [_tool_server(each) for each in self._states.values()]

    def moved(self, event: Event) -> None:
        if isinstance(event.payload, McpEvent):
            self.reload()

    async def pick(self, option: Option) -> None:
        info = self._states[option.key]
        rows = [Option("restart", "start it anew")]
        if info.state == "needs auth":
            rows.insert(0, Option("login", "log in with a browser"))
        if info.held_count:
            rows.insert(
                0, Option("accept", f"look at what it says now, and accept it ({info.held_count} held back)")
            )
        if info.error:
            rows.append(Option("error", "read its last error"))
        rows.append(Option("logout", "log out"))
        match await self.also(Choices(info.name, rows)):
            case "restart":
                await self._room.call("POST", "/mcp/restart", McpName(name=info.name))
            case "logout":
                await self._room.call("POST", "/mcp/logout", McpName(name=info.name))
            case "error":
                await self.also(Viewer(info.name, info.error))
            case "login":
                await self._log_in(info.name)
            case "accept":
                await self._accept(info.name)
            case _:
                return
        self.reload()

    async def _log_in(self, name: str) -> None:
        """Show where; the server waits for the browser to come back."""
        waiting = (await self._room.call("GET", "/mcp/pending-auth")).read(list[SignIn])
        address = next((each.url for each in waiting if each.name == name), "")
        if address:
            self.app.copy_to_clipboard(address)
            self.hint(f"open this (it is copied): {inert_line(address)}")
        await self._room.call("POST", "/mcp/auth", McpName(name=name), timeout_s=LOGIN_S)
        self.hint(f"logged in to {inert_line(name)}")

    async def _accept(self, name: str) -> None:
        told = (await self._room.call("GET", "/mcp/changes")).read(list[McpChanges])
        held = next((each for each in told if each.name == name), None)
        if held is None or not held.changes:
            raise BadRequest("nothing of it is held back any more")
        text = "\n\n".join(
            "\n".join([change.tool or change.kind, *(f"! it {w}" for w in change.warnings), change.diff])
            for change in held.changes
        )
        await self.also(Viewer(f"What {name} says now", text))
        if await self.also(
            Confirm("Accept that?", "The model is told what was shown.", yes="yes, accept it")
        ):
            await self._room.call("POST", "/mcp/accept", McpAccept(name=name, fingerprint=held.fingerprint))


def _tool_server(info: McpInfo) -> Option:
    counts = [f"{info.tool_count} {'tool' if info.tool_count == 1 else 'tools'}"] if info.tool_count else []
    counts += [f"{info.held_count} held back"] if info.held_count else []
    said = inert_line(info.error) or ", ".join(counts)
    mark = {"connected": "●", "error": "✗", "needs auth": "!"}.get(info.state, "○")
    return Option(info.name, f"{inert_line(info.name)}  {said}", right=inert_line(info.state), mark=mark)


class LanguageServers(Picker):
    """One row for each; enter tells its last error whole."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "restart", "stop all; they start again when needed", priority=True)
    ]
    place = "Language servers"

    def __init__(self, room: Room) -> None:
        super().__init__(
            "Language servers",
            hint="enter read its last error  ctrl+r stop all, they start again when needed  esc close",
            empty="no language servers: docs/lsp.md says how they are found",
        )
        self._room = room
        self._infos: dict[str, LspInfo] = {}

    async def options(self) -> Sequence[Option]:
        self._infos = await self._room.language_servers()
        return [_language_server(each) for each in self._infos.values()]

    def moved(self, event: Event) -> None:
        if isinstance(event.payload, LspEvent):
            self.reload()

    async def pick(self, option: Option) -> None:
        error = self._infos[option.key].error
        await self.also(Viewer(option.key, inert(error) or "it has complained about nothing"))

    def action_restart(self) -> None:
        self.attempt(self._restart())

    async def _restart(self) -> None:
        await self._room.stop_language_servers()
        self.reload()


def _language_server(info: LspInfo) -> Option:
    found = f"{info.diagnostic_count} to mend" if info.diagnostic_count else ""
    state = LSP_STATES[info.state]
    mark = {"ready": "●", "failed": "✗"}.get(state, "○")
    return Option(
        info.name, f"{inert_line(info.name)}  {inert_line(info.error) or found}", right=state, mark=mark
    )
