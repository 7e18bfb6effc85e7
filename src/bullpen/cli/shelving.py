"""What the commands of `bullpen session` have in common: options, and the session that is meant, wherever it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from bullpen.cli.options import directory_of, host_option

if TYPE_CHECKING:
    from bullpen.client.shelf import Shelf
    from bullpen.client.workspace import Room
    from bullpen.schema.library import KnownSession

MOST = 100_000
"""All sessions there are, in the pages that the server tells."""

NOTHING_YET = "there are no sessions yet"

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
directory_option = click.option(
    "--in", "directory", metavar="DIR", default=".", help="The workspace. [default: here]"
)


def place_options(function: Callable[..., int]) -> Callable[..., int]:
    """Which workspace, on which server, and for whom."""
    return json_option(directory_option(host_option(function)))


def path_of(directory: str) -> str:
    """The workspace of a directory, as the server names it."""
    return str(directory_of(directory).resolve())


def on_shelf(host: str | None, main: Callable[[Shelf], Awaitable[int]]) -> int:
    """Ask the server without opening a workspace. Where there is nothing yet, nothing is made."""
    from bullpen.cli.running import run_async
    from bullpen.client.shelf import open_shelf

    async def run() -> int:
        async with open_shelf(host=host) as shelf:
            if shelf is None:
                raise click.ClickException(NOTHING_YET)
            return await main(shelf)

    return run_async(run)


async def find(shelf: Shelf, directory: str, wanted: str) -> KnownSession:
    """The session that a person named: one of this workspace, else one of any; without a name the one used last here."""
    from bullpen.present.library import pick

    here = await shelf.sessions(path=path_of(directory), limit=MOST if wanted else 1)
    if not wanted:
        if not here:
            raise click.ClickException("there are no sessions in this workspace; --in names another one")
        return here[0]
    if any(each.session.id.startswith(wanted) for each in here):
        return pick(here, wanted)
    return pick(await shelf.sessions(limit=MOST), wanted)


def in_its_room(
    directory: str, wanted: str, host: str | None, main: Callable[[Room, KnownSession], Awaitable[int]]
) -> int:
    """Find the session, join its workspace, and do something with it there."""
    from bullpen.client.workspace import attach

    async def with_shelf(shelf: Shelf) -> int:
        known = await find(shelf, directory, wanted)
        async with attach(str(directory_of(known.workspace_path)), host=host) as room:
            return await main(room, known)

    return on_shelf(host, with_shelf)
