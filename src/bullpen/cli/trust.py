"""`bullpen trust`: see what a project's files would do, and let them, or not. Needs no server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from bullpen.cli.options import directory_of

if TYPE_CHECKING:
    from bullpen.schema.api import TrustEffect


@click.command("trust", short_help="Show what a project's config would do, and trust it.")
@click.argument("path", metavar="[DIR]", default=".")
@click.option("--show", is_flag=True, help="Only show it.")
@click.option("--yes", is_flag=True, help="Trust it without being asked.")
@click.option("--revoke", is_flag=True, help="Trust it no longer.")
@click.option(
    "--only", metavar="ITEM", multiple=True, help="Only this item, by its name as shown; may be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="Only show it, as one JSON object.")
def command(path: str, show: bool, yes: bool, revoke: bool, only: tuple[str, ...], as_json: bool) -> int:
    """Show exactly what the files of the project at DIR (default: here) would do, and ask whether to trust them.

    Trust is yours alone, is kept outside the project, and holds for exactly this content, item by item: what changes, and what
    runs a script of the project that changes, is asked for again. A running server follows at once. Exit status 1 when
    something of it is not trusted in the end.

    \b
    Examples:
      bullpen trust
      bullpen trust ~/project --show
      bullpen trust --json | jq '.effects[] | select(.state != "trusted")'
      bullpen trust --only hooks.PreToolUse[0] --only skills.deploy
      bullpen trust --revoke
    """
    if (show or as_json) + yes + revoke > 1:
        raise click.UsageError("--show or --json, --yes and --revoke exclude each other")
    from bullpen.cli import effective
    from bullpen.config.items import picked
    from bullpen.config.trust import effects
    from bullpen.config.trusted import TrustBook
    from bullpen.present.inert import inert_line
    from bullpen.present.trust import lines, summary

    root = directory_of(path)
    found = effective.read(root)
    book = TrustBook(found.places.trust_file)
    if revoke:
        book.revoke(root, only)
        what = inert_line(", ".join(only)) if only else inert_line(str(root))
        click.echo(f"{what} is no longer trusted")
        return 0
    items = found.layers.items
    if as_json:
        return _as_json(
            effects(found.layers.wanted, items), {item.state for item in picked(items, only)}, only
        )
    if not items:
        click.echo("nothing in this project waits for trust")
        return 0
    chosen = picked(items, only)
    for line in lines(effects(found.layers.wanted, items), only):
        click.echo(line)
    states = {item.state for item in chosen}
    if show or states == {"trusted"}:
        click.echo(summary(states))
        return 0 if states == {"trusted"} else 1
    if not yes and not (sys.stdin.isatty() and click.confirm("Trust this?", default=False)):
        click.echo("not trusted; nothing of it takes effect", err=True)
        return 1
    (book.trust if only else book.trust_only)(root, chosen)
    click.echo("trusted, until it changes")
    return 0


def _as_json(shown: list[TrustEffect], states: set[str], only: tuple[str, ...]) -> int:
    from bullpen.schema.wire import encode

    is_trusted = states <= {"trusted"}
    told = [effect for effect in shown if not only or effect.item in only]
    click.echo(encode({"trusted": is_trusted, "effects": told}).decode())
    return 0 if is_trusted else 1
