"""`bullpen attach`: the screen, or the same in lines."""

from __future__ import annotations

import os
import sys

import click

from bullpen.cli.options import directory_of, host_option, name_option, plain_option, session_option


@click.command("attach", short_help="Join a workspace in this terminal.")
@click.argument("path", default=".")
@session_option
@click.option("--new", is_flag=True, help="Begin on an empty page. [default: the session used last]")
@plain_option
@host_option
@name_option
def command(path: str, session: str, new: bool, plain: bool, host: str | None, name: str) -> int:
    """Join the workspace at PATH (default: the current directory) and talk to its agent.

    Everybody attached sees the same: prompts, answers as they grow, tool calls, asks. Asks are answered by
    whoever is first. Leaving ends nothing: the turn goes on without you.

    On the screen F1 shows all keys, Ctrl+P all commands. With --plain, which also holds where there is no
    terminal to draw on, everything is said in lines, and /help lists the commands.

    \b
    Examples:
      bullpen attach
      bullpen attach ~/project --session 3f2a
      bullpen attach --plain
      bullpen attach /srv/app --host tcp://127.0.0.1:7777
    """
    return start(path, host=host, session=session, newest=not new, name=name, plain=plain)


def start(path: str, *, host: str | None, session: str, newest: bool, name: str, plain: bool) -> int:
    """Attach and stay until the person leaves; the answer is the exit status."""
    from bullpen.client.locate import find_address
    from bullpen.system.address import UnixAddress

    if isinstance(find_address(host), UnixAddress):
        path = str(directory_of(path))
    if plain or not can_draw():
        from bullpen.cli.running import run_async
        from bullpen.plain.chat import chat

        return run_async(lambda: chat(path, host=host, session=session, newest=newest, name=name))
    from bullpen.tui import app, preferences

    chosen, complaint = preferences.load()
    wish = app.Wish(path=path, host=host, session=session, newest=newest, name=name)
    return app.run(wish, chosen, complaint)


def can_draw() -> bool:
    """Whether there is a terminal that a screen can be drawn on."""
    # Textual reads from the one and draws on the other.
    return sys.stdin.isatty() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
