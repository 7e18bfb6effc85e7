"""What `changes`, `undo` and `redo` have in common: options, and the session that is meant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from bullpen.cli.options import directory_of, host_option, session_option

if TYPE_CHECKING:
    from bullpen.client.workspace import Room
    from bullpen.schema.session import Session

Main = Callable[["Room", "Session"], Awaitable[int]]


def place_options(function: Callable[..., int]) -> Callable[..., int]:
    """Which session of which workspace."""
    where = click.option(
        "--in", "directory", metavar="DIR", default=".", help="The workspace. [default: here]"
    )
    return where(session_option(host_option(function)))


def part_options(function: Callable[..., int]) -> Callable[..., int]:
    """Which part of it, and whether to do it."""
    options = (
        click.option(
            "--file", "-f", "files", metavar="PATH", multiple=True, help="Only this file; repeatable."
        ),
        click.option(
            "--hunk", "hunks", metavar="ID", multiple=True, help="Only this hunk of --dry-run; repeatable."
        ),
        click.option("--dry-run", "-n", is_flag=True, help="Show what would be done, and do nothing."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def in_session(directory: str, session: str, host: str | None, main: Main) -> int:
    """Join the workspace and go to the session: the named one, else the one used last."""
    from bullpen.cli.running import run_async
    from bullpen.client.workspace import attach
    from bullpen.present.sessions import find_session

    async def run() -> int:
        async with attach(str(directory_of(directory)), host=host) as room:
            own = [each for each in room.sessions if not each.parent_session_id]
            if not session and not own:
                raise click.ClickException("there are no sessions in this workspace, so nothing was changed")
            return await main(room, find_session(room, session) if session else own[0])

    return run_async(run)
