"""`bullpen undo`: take back what a turn changed in the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bullpen.cli.undoing import in_session, part_options, place_options
from bullpen.present.undoing import done_lines, has_conflicts, latest, preview_lines, relative

if TYPE_CHECKING:
    from bullpen.client.workspace import Room
    from bullpen.schema.session import Session


@click.command("undo", short_help="Take back what a turn changed in the files.")
@click.argument("turn", type=click.IntRange(min=1), required=False)
@part_options
@place_options
def command(
    turn: int | None,
    files: tuple[str, ...],
    hunks: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    directory: str,
    session: str,
    host: str | None,
) -> int:
    """Take back what a turn changed in the files, by edits and by commands. Git is not needed and not touched.

    TURN is a number that `bullpen changes` shows; without it the latest one that is not undone. What people changed since stays: where
    that is in the same place, nothing is done at all. `bullpen redo` takes it back.

    \b
    Examples:
      bullpen undo --dry-run            show what would be done
      bullpen undo                      undo the latest turn
      bullpen undo 12 --file src/a.py   only one file of turn 12
      bullpen undo --hunk 3f2ac01b      only one place; --dry-run shows the ids
    """

    async def main(room: Room, found: Session) -> int:
        from bullpen.schema.wire import encode

        number = turn or await latest(room, found)
        wanted = relative(files, room.workspace.path)
        if dry_run:
            preview = await room.preview_undo(number, session=found.id)
            told = preview_lines(preview, verb="undo", files=wanted)
            click.echo(encode(preview).decode() if as_json else "\n".join(told))
            return 1 if has_conflicts(preview, wanted) else 0
        done = await room.undo(number, session=found.id, files=wanted, hunks=hunks)
        told = done_lines(done, verb="undid", back="bullpen redo takes it back")
        click.echo(encode(done).decode() if as_json else "\n".join(told))
        return 0

    return in_session(directory, session, host, main)
