"""`bullpen redo`: take the last undo back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bullpen.cli.undoing import in_session, part_options, place_options
from bullpen.present.undoing import done_lines, has_conflicts, preview_lines, relative

if TYPE_CHECKING:
    from bullpen.client.workspace import Room
    from bullpen.schema.session import Session


@click.command("redo", short_help="Take the last undo back.")
@part_options
@place_options
def command(
    files: tuple[str, ...],
    hunks: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    directory: str,
    session: str,
    host: str | None,
) -> int:
    """Take the last undo of a session back, so that the files are again as the turn left them.

    After several undos it can be said several times. What people changed since stays, as with `bullpen undo`.

    \b
    Examples:
      bullpen redo
      bullpen redo --dry-run
      bullpen redo --file src/a.py
    """

    async def main(room: Room, found: Session) -> int:
        from bullpen.schema.wire import encode

        wanted = relative(files, room.workspace.path)
        if dry_run:
            preview = await room.preview_redo(session=found.id)
            told = preview_lines(preview, verb="redo", files=wanted)
            click.echo(encode(preview).decode() if as_json else "\n".join(told))
            return 1 if has_conflicts(preview, wanted) else 0
        done = await room.redo(session=found.id, files=wanted, hunks=hunks)
        told = done_lines(done, verb="redid", back=f"bullpen undo {done.turn} takes it back")
        click.echo(encode(done).decode() if as_json else "\n".join(told))
        return 0

    return in_session(directory, session, host, main)
