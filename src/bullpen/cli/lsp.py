"""`bullpen lsp`: the language servers of a workspace, and those that Bullpen knows."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bullpen.cli.options import directory_of, host_option

if TYPE_CHECKING:
    from bullpen.client.workspace import Room
    from bullpen.schema.agent import LspInfo

STATES = ("not started", "starting", "ready", "in error", "stopped", "disabled")

_directory = click.option(
    "--in", "directory", metavar="DIR", default=".", help="The workspace. [default: here]"
)


@click.group("lsp", short_help="Show, start and stop language servers; list those that are known.")
def command() -> None:
    """See and control the language servers of a workspace. They start by themselves when the agent views or changes a file
    that they know; see docs/lsp.md.

    \b
    Examples:
      bullpen lsp list
      bullpen lsp known
      bullpen lsp start src/main.go
      bullpen lsp stop
    """


@command.command("list")
@_directory
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@host_option
def list_(directory: str, as_json: bool, host: str | None) -> int:
    """List the language servers of a workspace with their states: those that are configured, and those that were started.

    \b
    Examples:
      bullpen lsp list
      bullpen lsp list --in ~/project --json
    """

    async def main(room: Room) -> int:
        from bullpen.schema.wire import encode

        found = await room.language_servers()
        click.echo(encode(found).decode() if as_json else "\n".join(table(found)))
        return 0

    return _in(directory, host, main)


@command.command("start")
@click.argument("file")
@_directory
@host_option
def start(file: str, directory: str, host: str | None) -> int:
    """Start the language servers that know FILE, also those that were given up. Their states tell how it went.

    \b
    Examples:
      bullpen lsp start src/main.go
    """

    path = os.path.abspath(file)

    async def main(room: Room) -> int:
        await room.start_language_servers(path)
        click.echo("\n".join(table(await room.language_servers())))
        return 0

    return _in(directory, host, main)


@command.command("stop")
@_directory
@host_option
def stop(directory: str, host: str | None) -> int:
    """Stop all language servers of a workspace. They start again when they are needed.

    \b
    Examples:
      bullpen lsp stop
    """

    async def main(room: Room) -> int:
        await room.stop_language_servers()
        click.echo("\n".join(table(await room.language_servers())))
        return 0

    return _in(directory, host, main)


@command.command("known")
@_directory
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def known(directory: str, as_json: bool) -> int:
    """List the language servers that Bullpen knows: whether each is installed, for which files, when it starts by itself, and how
    to get it. No server is needed for this.

    \b
    Examples:
      bullpen lsp known
      bullpen lsp known --json | jq '.[] | select(.installed).name'
    """
    import json

    from bullpen.errors import LanguageServerFailed
    from bullpen.lsp import plan
    from bullpen.lsp.known import starts

    root = Path(directory_of(directory))
    rows: list[dict[str, Any]] = []
    for each, mine in plan.catalogue(trusted=False):
        try:
            plan.launch(mine, root, os.environ)
            is_installed = True
        except LanguageServerFailed:
            is_installed = False
        rows.append(
            {
                "name": each.name,
                "installed": is_installed,
                "filetypes": each.filetypes,
                "starts": starts(each),
                "install": each.install,
            }
        )
    if as_json:
        click.echo(json.dumps(rows))
        return 0
    for row in sorted(rows, key=lambda row: not row["installed"]):
        mark = " " if row["installed"] else "-"
        told = row["starts"] if row["installed"] else row["install"]
        click.echo(f"{mark} {row['name']:<28} {' '.join(row['filetypes'])[:38]:<38} {told}")
    return 0


def table(found: dict[str, LspInfo]) -> list[str]:
    """For people: one line each."""
    from bullpen.present.inert import inert_line

    lines = []
    for info in found.values():
        state = STATES[info.state] if 0 <= info.state < len(STATES) else "unknown"
        told = inert_line(info.error)
        if not told and info.diagnostic_count:
            told = f"{info.diagnostic_count} problem{'s' if info.diagnostic_count != 1 else ''}"
        lines.append(f"{inert_line(info.name):<28} {state:<12} {told}".rstrip())
    return lines or ["none is configured or started; `bullpen lsp known` lists those that could be"]


def _in(directory: str, host: str | None, main: Callable[[Room], Awaitable[int]]) -> int:
    from bullpen.cli.running import run_async
    from bullpen.client.workspace import attach

    async def run() -> int:
        async with attach(str(directory_of(directory)), host=host) as room:
            return await main(room)

    return run_async(run)
