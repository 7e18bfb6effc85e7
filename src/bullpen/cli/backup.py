"""`bullpen backup`: copy the database, also while the server runs."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command("backup", short_help="Copy the database, also while the server runs.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--data-dir",
    "-D",
    type=click.Path(file_okay=False, path_type=Path),
    help="The server's data directory. [default: your own]",
)
def command(file: Path, data_dir: Path | None) -> int:
    """Copy the database as it is now to FILE, which must not exist yet.

    To restore it, stop the server, put FILE in place of bullpen.db in the data directory, remove bullpen.db-wal and
    bullpen.db-shm, and start the server.

    \b
    Examples:
      bullpen backup monday.db
      bullpen backup /backups/team.db --data-dir /srv/bullpen
    """
    from bullpen.config.places import Places
    from bullpen.errors import StoreError
    from bullpen.store.sqlite import copy
    from bullpen.store.store import DATABASE_NAME

    directory = data_dir or Places.of(os.environ).data
    if not (directory / DATABASE_NAME).exists():
        raise StoreError(f"there is no database in {directory}")
    copy(directory / DATABASE_NAME, file)
    click.echo(f"{directory / DATABASE_NAME} was copied to {file}")
    return 0
