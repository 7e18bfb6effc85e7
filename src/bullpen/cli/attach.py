"""`bullpen attach`: the line-mode client."""

from __future__ import annotations

import click

from bullpen.cli.options import directory_of, host_option, name_option, session_option


@click.command("attach", short_help="Join a workspace in this terminal.")
@click.argument("path", default=".")
@session_option
@host_option
@name_option
def command(path: str, session: str, host: str | None, name: str) -> int:
    """Join the workspace at PATH (default: the current directory) and talk to its agent.

    Everybody attached sees the same: prompts, answers as they grow, tool calls, asks. Asks are answered by
    number, by whoever is first. Ctrl-C cancels the running turn, a second one leaves, Ctrl-D leaves; the turn
    then goes on without you. /help lists the commands.

    \b
    Examples:
      bullpen attach
      bullpen attach ~/project --session 3f2a
      bullpen attach /srv/app --host tcp://127.0.0.1:7777
    """
    return start(path, host=host, session=session, name=name, choose_model=False)


def start(path: str, *, host: str | None, session: str, name: str, choose_model: bool) -> int:
    """Attach and stay until the person leaves; the answer is the exit status."""
    from bullpen.cli.chat import chat
    from bullpen.cli.running import run_async
    from bullpen.client.locate import find_address
    from bullpen.system.address import UnixAddress

    if isinstance(find_address(host), UnixAddress):
        path = str(directory_of(path))
    return run_async(lambda: chat(path, host=host, session=session, name=name, choose_model=choose_model))
