"""`bullpen trust`: see what a project's files would do, and let them, or not. Needs no server."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from bullpen.cli.options import directory_of

if TYPE_CHECKING:
    from bullpen.schema.api import TrustEffect

VERBS = {
    "runs": "runs",
    "connects": "connects to",
    "sets": "sets",
    "allows": "allows without asking",
    "reads": "gives the model",
    "instructs": "instructs the model",
    "broken": "cannot be read",
}


@click.command("trust", short_help="Show what a project's config would do, and trust it.")
@click.argument("path", metavar="[DIR]", default=".")
@click.option("--show", is_flag=True, help="Only show it.")
@click.option("--yes", is_flag=True, help="Trust it without being asked.")
@click.option("--revoke", is_flag=True, help="Trust it no longer.")
def command(path: str, show: bool, yes: bool, revoke: bool) -> int:
    """Show exactly what the files of the project at DIR (default: here) would do, and ask whether to trust them.

    Trust is yours alone, is kept outside the project, and holds for exactly this content: after a change it is
    asked for again. A running server follows at once. Exit status 1 when the project is not trusted in the end.

    \b
    Examples:
      bullpen trust
      bullpen trust ~/project --show
      bullpen trust --revoke
    """
    if show + yes + revoke > 1:
        raise click.UsageError("--show, --yes and --revoke exclude each other")
    from bullpen.cli import effective
    from bullpen.cli.inert import inert_line
    from bullpen.config.trust import effects
    from bullpen.config.trusted import TrustBook

    root = directory_of(path)
    found = effective.read(root)
    book = TrustBook(found.places.trust_file)
    if revoke:
        book.revoke(root)
        click.echo(f"{inert_line(str(root))} is no longer trusted")
        return 0
    if not found.layers.fingerprint:
        click.echo("nothing in this project waits for trust")
        return 0
    for line in lines(effects(found.layers.wanted)):
        click.echo(line)
    trusted = book.trusts(root, found.layers.fingerprint)
    if show or trusted:
        click.echo("this is trusted" if trusted else "this is not trusted")
        return 0 if trusted or effective.trusts_all() else 1
    if not yes and not (sys.stdin.isatty() and click.confirm("Trust this?", default=False)):
        click.echo("not trusted; nothing of it takes effect", err=True)
        return 1
    book.trust(root, found.layers.fingerprint)
    click.echo("trusted, until it changes")
    return 0


def lines(effects: Iterable[TrustEffect]) -> Iterator[str]:
    """What the files of a project would do, for people, by file."""
    from bullpen.cli.inert import inert_line

    file = ""
    for effect in effects:
        if effect.file != file:
            file = effect.file
            yield inert_line(file)
        place = inert_line(effect.setting) + (f":{effect.line}" if effect.line else "")
        yield f"  {VERBS.get(effect.kind, effect.kind)}  {inert_line(effect.detail)}  ({place})"
