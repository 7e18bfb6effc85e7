"""`bullpen session import` and `restore`: sessions that come from a file, or back from the trash."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bullpen.cli.options import directory_of
from bullpen.cli.shelving import on_shelf, path_of, place_options

if TYPE_CHECKING:
    from bullpen.client.shelf import Shelf

MAX_BYTES = 64 * 1024 * 1024
"""As much as the server takes."""


@click.command("import")
@click.argument("file", metavar="FILE")
@place_options
def take_in(file: str, as_json: bool, directory: str, host: str | None) -> int:
    """Take a session in that `bullpen session export` wrote; `-` is stdin. The new session's id is printed.

    \b
    Examples:
      bullpen session import talk.json
      ssh other bullpen session export 3f2a | bullpen session import -
    """
    from bullpen.cli.running import run_async
    from bullpen.client.workspace import attach
    from bullpen.schema.transfer import SessionDocument
    from bullpen.schema.wire import decode_document, encode

    document = decode_document(_read(file), SessionDocument)
    path = str(directory_of(directory))

    async def main() -> int:
        async with attach(path, host=host) as room:
            taken = await room.library.take_in(document)
        click.echo(encode(taken).decode() if as_json else taken.session.id)
        if not taken.is_new:
            click.echo("it was imported before", err=True)
        return 0

    return run_async(main)


def _read(file: str) -> bytes:
    try:
        with Path(file).open("rb") if file != "-" else sys.stdin.buffer as opened:
            raw = opened.read(MAX_BYTES + 1)
    except OSError as exc:
        raise click.ClickException(f"{file} cannot be read: {exc.strerror}") from exc
    if len(raw) > MAX_BYTES:
        raise click.ClickException(f"{file} is larger than {MAX_BYTES // 1024 // 1024} MiB")
    return raw


@click.command("restore")
@click.argument("session_id", metavar="[ID]", default="")
@place_options
def restore(session_id: str, as_json: bool, directory: str, host: str | None) -> int:
    """Have a deleted session back; without an id, list those that can be.

    \b
    Examples:
      bullpen session restore
      bullpen session restore 3f2a
    """

    async def main(shelf: Shelf) -> int:
        from bullpen.client.workspace import attach
        from bullpen.present.inert import inert_line
        from bullpen.present.library import trash_lines
        from bullpen.schema.wire import encode

        trash = await shelf.trash(path_of(directory))
        if not session_id:
            if as_json or trash:
                told = "\n".join(trash_lines(trash, time.time()))
                click.echo(encode(trash).decode() if as_json else told)
            else:
                click.echo("the trash of this workspace is empty", err=True)
            return 0
        fitting = [each.session.id for each in trash if each.session.id.startswith(session_id)]
        if len(fitting) != 1:
            many = "several sessions" if fitting else "no session"
            raise click.ClickException(
                f"{many} in this workspace's trash: {inert_line(session_id)}; `bullpen session restore` lists them"
            )
        async with attach(path_of(directory), host=host) as room:
            back = await room.library.restore(fitting[0])
        told = f"{back.id[:8]} “{inert_line(back.title)}” is back"
        click.echo(encode(back).decode() if as_json else told, err=not as_json)
        return 0

    return on_shelf(host, main)
