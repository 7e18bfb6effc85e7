"""`bullpen man`: the manual page, made from the commands themselves, so it cannot fall behind."""

from __future__ import annotations

import click


@click.command("man", short_help="Print the manual page.")
def command() -> int:
    """Print the manual page (roff), with every command and option.

    \b
    Examples:
      bullpen man | man -l -
      bullpen man > ~/.local/share/man/man1/bullpen.1
    """
    from bullpen.cli.main import cli
    from bullpen.cli.manual import manual

    click.echo(manual(cli), nl=False)
    return 0
