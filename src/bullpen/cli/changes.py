"""`bullpen changes`: which turns changed which files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bullpen.cli.undoing import in_session, place_options
from bullpen.present.undoing import turn_lines

if TYPE_CHECKING:
    from bullpen.client.workspace import Room
    from bullpen.schema.session import Session


@click.command("changes", short_help="List the turns that changed files.")
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="How many turns.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of JSON objects.")
@place_options
def command(limit: int, as_json: bool, directory: str, session: str, host: str | None) -> int:
    """List the turns of a session that changed files, the latest first, with what became of the changes.

    The session is the one used last, unless --session names another. The number is what `bullpen undo` takes.

    \b
    Examples:
      bullpen changes
      bullpen changes --session 3f2a --limit 5
      bullpen changes --json | jq '.[0].paths'
    """

    async def main(room: Room, found: Session) -> int:
        from bullpen.schema.wire import encode

        turns = await room.changes(found.id, limit=limit)
        click.echo(encode(turns).decode() if as_json else "\n".join(turn_lines(turns)))
        return 0

    return in_session(directory, session, host, main)
