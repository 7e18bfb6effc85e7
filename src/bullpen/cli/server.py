"""`bullpen server`: run the server in the foreground until it is stopped."""

from __future__ import annotations

import os
from pathlib import Path

import click


def _checked_hosts(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    from bullpen.errors import BadHost
    from bullpen.system.address import parse_host

    for host in value:
        try:
            parse_host(host)
        except BadHost as exc:
            raise click.BadParameter(exc.message, ctx, param) from exc
    return value


@click.command("server", short_help="Run the server in the foreground.")
@click.option(
    "--host",
    "-H",
    "hosts",
    metavar="HOST",
    multiple=True,
    callback=_checked_hosts,
    help="Listen here: unix:///path.sock or tcp://127.0.0.1:PORT. May be repeated; a TCP server also opens "
    "the default socket. [default: your own socket]",
)
@click.option(
    "--data-dir",
    "-D",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep all state here. One server per directory.",
)
@click.option("--store", metavar="URL", help="Keep the state in this database instead.")
@click.option(
    "--trust",
    is_flag=True,
    help="Trust the config files of every project: hooks, MCP servers and keys in them take effect. "
    "Also BULLPEN_TRUST=1. For containers and tests.",
)
@click.option(
    "--idle-exit",
    "idle_exit_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="End after so long without a workspace. [default: stay]",
)
@click.option("--debug", "-d", is_flag=True, help="Log more.")
def command(
    hosts: tuple[str, ...],
    data_dir: Path | None,
    store: str | None,
    trust: bool,
    idle_exit_s: float | None,
    debug: bool,
) -> int:
    """Run the server in the foreground until SIGINT or SIGTERM.

    Clients start a server by themselves when they need one; run it yourself to keep it, to watch its log, or to
    listen elsewhere. Over TCP every call needs the token, which is made on first start.

    \b
    Examples:
      bullpen server
      bullpen server --host tcp://127.0.0.1:7777
      bullpen server --host unix:///run/team/bullpen.sock --data-dir /srv/bullpen
    """
    from bullpen.cli.serving import ServerOptions, run_server

    options = ServerOptions(
        hosts=hosts,
        data_dir=data_dir.absolute() if data_dir else None,
        trust=trust or os.environ.get("BULLPEN_TRUST", "") in {"1", "true", "yes"},
        idle_exit_s=idle_exit_s,
        debug=debug,
        store=store,
    )
    return run_server(options)
