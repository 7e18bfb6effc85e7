"""`bullpen mcp`: the outside tool servers of a workspace: how they are, logging in to them, and what they changed."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from bullpen.cli.options import directory_of, host_option

if TYPE_CHECKING:
    from bullpen.client.workspace import Room
    from bullpen.schema.agent import McpChanges, McpInfo

SETTLE_S = 40.0
"""Servers that only now are started are waited for, each up to its own limit, which is seldom longer."""

LOGIN_S = 660.0
"""Somewhat longer than the server waits for the person."""

_directory = click.option(
    "--in", "directory", metavar="DIR", default=".", help="The workspace. [default: here]"
)
_name = click.argument("name")
_scope = click.option(
    "--scope",
    type=click.Choice(["workspace", "global"]),
    default="workspace",
    show_default=True,
    help="For this workspace, or for all.",
)


@click.group("mcp", short_help="Show tool servers (MCP), log in to them, accept what they changed.")
def command() -> None:
    """See to the outside tool servers (MCP) of a workspace. They are configured under `mcp` in bullpen.json.

    \b
    Examples:
      bullpen mcp list
      bullpen mcp login github
      bullpen mcp accept github
      bullpen mcp restart github
    """


@command.command("list")
@_directory
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@host_option
def list_(directory: str, as_json: bool, host: str | None) -> int:
    """List the servers with their state and what they offer. Servers that are starting are waited for.

    Exit status 1 when one of them is in error or needs a login.

    \b
    Examples:
      bullpen mcp list
      bullpen mcp list --json | jq -r 'to_entries[] | select(.value.state == "needs auth") | .key'
    """

    async def main(room: Room) -> int:
        states = await _settled(room)
        if as_json:
            from bullpen.schema.wire import encode

            click.echo(encode(states).decode())
        else:
            for line in table(states):
                click.echo(line)
        return 1 if any(each.state in ("error", "needs auth") for each in states.values()) else 0

    return _in(directory, host, main)


@command.command("login")
@_name
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@_directory
@host_option
def login(name: str, no_browser: bool, directory: str, host: str | None) -> int:
    """Log in to the server NAME with a browser. The login is kept in your state directory and renewed by itself.

    The browser comes back to an address of the machine that the Bullpen server runs on; when that is another one,
    forward its port first, for example with `ssh -L 40704:localhost:40704`.

    \b
    Examples:
      bullpen mcp login github
      bullpen mcp login github --no-browser
    """

    async def main(room: Room) -> int:
        import anyio

        from bullpen.schema.api import McpName
        from bullpen.system.address import UnixAddress

        is_here = isinstance(room.address, UnixAddress)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_show_address, room, name, is_here and not no_browser)
            await room.call("POST", "/mcp/auth", McpName(name=name), timeout_s=LOGIN_S)
            tasks.cancel_scope.cancel()
        click.echo(f"logged in to {_inert(name)}")
        return 0

    return _in(directory, host, main)


@command.command("logout")
@_name
@_directory
@host_option
def logout(name: str, directory: str, host: str | None) -> int:
    """Forget the login to the server NAME, and tell its host, if that can be told.

    \b
    Examples:
      bullpen mcp logout github
    """

    async def main(room: Room) -> int:
        from bullpen.schema.api import McpName

        answer = await room.call("POST", "/mcp/logout", McpName(name=name))
        was = answer.read(dict[str, bool])["was_signed_in"]
        click.echo(f"logged out of {_inert(name)}" if was else f"there was no login to {_inert(name)}")
        return 0

    return _in(directory, host, main)


@command.command("restart")
@_name
@_directory
@host_option
def restart(name: str, directory: str, host: str | None) -> int:
    """End the server NAME and start it again. The others go on.

    \b
    Examples:
      bullpen mcp restart github
    """

    async def main(room: Room) -> int:
        from bullpen.schema.api import McpName

        await room.call("POST", "/mcp/restart", McpName(name=name))
        info = (await _settled(room))[name]
        click.echo(table({name: info})[0])
        return 0 if info.state == "connected" else 1

    return _in(directory, host, main)


@command.command("accept")
@_name
@click.option("--show", is_flag=True, help="Only show it.")
@click.option("--yes", is_flag=True, help="Accept it without being asked.")
@_directory
@host_option
def accept(name: str, show: bool, yes: bool, directory: str, host: str | None) -> int:
    """Show what the server NAME says otherwise than when it was trusted, and ask whether to accept it.

    Descriptions, parameters and instructions are words that the model follows. Tools that are new or say something
    else are not offered to it until you accept them. Exit status 1 when something is left that you did not accept.

    \b
    Examples:
      bullpen mcp accept github
      bullpen mcp accept github --show
    """
    if show and yes:
        raise click.UsageError("--show and --yes exclude each other")

    async def main(room: Room) -> int:
        from bullpen.schema.agent import McpChanges
        from bullpen.schema.api import McpAccept

        if name not in await _settled(room):
            raise click.ClickException(f"there is no MCP server {_inert(name)} in this workspace")
        found = (await room.call("GET", "/mcp/changes")).read(list[McpChanges])
        held = next((each for each in found if each.name == name), None)
        if held is None:
            click.echo(f"{_inert(name)} says what was accepted; nothing waits")
            return 0
        for line in shown(held):
            click.echo(line)
        if show or not (yes or (sys.stdin.isatty() and click.confirm("Accept this?", default=False))):
            click.echo("not accepted; the model does not see it", err=True)
            return 1
        await room.call("POST", "/mcp/accept", McpAccept(name=name, fingerprint=held.fingerprint))
        click.echo("accepted, until it changes")
        return 0

    return _in(directory, host, main)


@command.command("enable")
@_name
@_scope
@_directory
def enable(name: str, scope: str, directory: str) -> int:
    """Switch the server NAME on. Needs no server; a running one follows at once.

    \b
    Examples:
      bullpen mcp enable github
    """
    return _switch(name, scope, directory, disabled=False)


@command.command("disable")
@_name
@_scope
@_directory
def disable(name: str, scope: str, directory: str) -> int:
    """Switch the server NAME off: it stays listed, and is not started. Needs no server; a running one follows at once.

    \b
    Examples:
      bullpen mcp disable github
      bullpen mcp disable github --scope global
    """
    return _switch(name, scope, directory, disabled=True)


def table(states: dict[str, McpInfo]) -> list[str]:
    """For people: one line each."""
    lines = []
    for name, info in sorted(states.items()):
        counts = (
            (info.tool_count, "tools"),
            (info.prompt_count, "prompts"),
            (info.resource_count, "resources"),
        )
        notes = [f"{count} {what if count != 1 else what[:-1]}" for count, what in counts if count]
        if info.held_count:
            notes.append(f"{info.held_count} held back, 'bullpen mcp accept {_inert(name)}' shows why")
        if info.error:
            notes.append(_inert(info.error))
        lines.append(f"{_inert(name)}  {info.state}{'  ' if notes else ''}{', '.join(notes)}")
    return lines or ["no MCP server is configured here"]


def shown(held: McpChanges) -> list[str]:
    """What a server changed, for people."""
    from bullpen.present.inert import inert

    lines = []
    for change in held.changes:
        what = {"new": "new tool", "changed": "changed tool", "instructions": "instructions"}[change.kind]
        lines += [f"{what} {_inert(change.tool)}".rstrip()]
        lines += [f"  ! it {_inert(warning)}" for warning in change.warnings]
        lines += [f"  {inert(line)}" for line in change.diff.splitlines()]
    return lines


async def _settled(room: Room) -> dict[str, McpInfo]:
    """The servers once none is starting any more, or when that takes too long."""
    import anyio

    from bullpen.schema.agent import McpInfo
    from bullpen.schema.events import McpEvent

    events = room.events()

    async def look() -> dict[str, McpInfo]:
        return (await room.call("GET", "/mcp/states")).read(dict[str, McpInfo])

    states = await look()
    with anyio.move_on_after(SETTLE_S):
        while any(each.state == "starting" for each in states.values()):
            while not isinstance((await anext(events)).payload, McpEvent):
                pass
            states = await look()
    return states


async def _show_address(room: Room, name: str, opens: bool) -> None:
    """Say where to log in, as soon as that is known."""
    import webbrowser
    from urllib.parse import quote

    from bullpen.schema.events import McpEvent

    events = room.events()
    while True:
        answer = await room.call("GET", f"/mcp/auth-url?name={quote(name, safe='')}")
        if url := answer.read(dict[str, str]).get("auth_url", ""):
            break
        while not isinstance((await anext(events)).payload, McpEvent):
            pass
    click.echo(f"open this address to log in to {_inert(name)}:\n{_inert(url)}")
    if opens and sys.stdout.isatty() and _has_screen():
        webbrowser.open(url)


def _has_screen() -> bool:
    import os

    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _switch(name: str, scope: str, directory: str, *, disabled: bool) -> int:
    from bullpen.cli import effective

    root = directory_of(directory)
    known = effective.read(root).merged.get("mcp", {})
    if name not in known:
        near = ", ".join(sorted(map(_inert, known))) or "none"
        raise click.ClickException(f"there is no MCP server {_inert(name)} here; configured: {near}")
    key = "mcp." + name.replace(".", "\\.") + ".disabled"
    file = effective.change(root, scope, key, disabled)
    click.echo(f"{_inert(name)} is {'disabled' if disabled else 'enabled'} in {_inert(str(file))}")
    return 0


def _inert(text: str) -> str:
    from bullpen.present.inert import inert_line

    return inert_line(text)


def _in(directory: str, host: str | None, main: Callable[[Room], Awaitable[int]]) -> int:
    from bullpen.cli.running import run_async
    from bullpen.client.workspace import attach

    async def run() -> int:
        async with attach(str(directory_of(directory)), host=host) as room:
            return await main(room)

    return run_async(run)
