"""`bullpen import`: take in the sessions of another tool."""

from __future__ import annotations

import sys

import click

from bullpen.cli.options import directory_of, host_option


@click.group("import", short_help="Take in the sessions of another tool.")
def command() -> None:
    """Take in the sessions of another tool.

    \b
    Examples:
      bullpen import crush ~/project
    """


@command.command("crush")
@click.argument("directory", metavar="DIR", default=".")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@host_option
def crush(directory: str, as_json: bool, host: str | None) -> int:
    """Take in the sessions of a Crush database, DIR/.crush/crush.db or DIR/crush.db, into the workspace of DIR.

    The database is only read. What was imported before is skipped, so it can be said again.

    \b
    Examples:
      bullpen import crush
      bullpen import crush ~/project --json
    """
    from bullpen.cli.crush import open_crush
    from bullpen.cli.running import run_async
    from bullpen.client.workspace import attach
    from bullpen.errors import BullpenError
    from bullpen.present.inert import inert_line
    from bullpen.schema.wire import encode

    path = directory_of(directory).resolve()

    async def main() -> int:
        new = known = 0
        refused: list[str] = []
        with open_crush(path) as database:
            names = database.sessions()
            async with attach(str(path), host=host) as room:
                for n, name in enumerate(names, start=1):
                    _progress(f"session {n} of {len(names)}")
                    try:
                        taken = await room.library.take_in(database.document(name))
                    except BullpenError as exc:
                        refused.append(f"{inert_line(name)}: {exc.message}")
                    else:
                        new, known = new + taken.is_new, known + (not taken.is_new)
        _progress("")
        skipped = dict(database.skipped)
        if as_json:
            told = {"imported": new, "known": known, "refused": refused, "skipped": skipped}
            click.echo(encode(told).decode())
        click.echo(f"imported {new} sessions; {known} were here already", err=True)
        for what, count in skipped.items():
            click.echo(f"  skipped: {count} {what}", err=True)
        for line in refused:
            click.echo(f"  refused: {line}", err=True)
        return 1 if refused else 0

    return run_async(main)


def _progress(text: str) -> None:
    """In place, and only where somebody looks."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{text}", nl=False, err=True)
