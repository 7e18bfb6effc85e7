"""Options that several commands share, and the checks that go with them."""

from __future__ import annotations

from pathlib import Path

import click

from bullpen.cli import completing

WORKSPACE_HELP = "Set BULLPEN_DEBUG=1 for tracebacks. More: docs/cli.md"


def _checked_host(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    from bullpen.errors import BadHost
    from bullpen.system.address import parse_host

    if value:
        try:
            parse_host(value)
        except BadHost as exc:
            raise click.BadParameter(exc.message, ctx, param) from exc
    return value


host_option = click.option(
    "--host",
    "-H",
    metavar="HOST",
    callback=_checked_host,
    help="The server: unix:///path.sock or tcp://host:port. [default: $BULLPEN_HOST, else your own]",
)

session_option = click.option(
    "--session",
    "-s",
    metavar="ID",
    default="",
    shell_complete=completing.sessions,
    help="The session: its id, or the beginning of it.",
)

name_option = click.option(
    "--name", metavar="NAME", default="", help="How the others see you. [default: user@machine]"
)

plain_option = click.option(
    "--plain",
    is_flag=True,
    help="Lines and numbered choices instead of a screen: for screen readers and simple terminals.",
)


def directory_of(path: str) -> Path:
    """The directory a person named, or one line about what is wrong with it."""
    directory = Path(path).expanduser()
    if not directory.exists():
        raise click.ClickException(f"there is no directory {path}; create it first")
    if not directory.is_dir():
        raise click.ClickException(f"{path} is a file; name the directory it is in")
    return directory.absolute()
