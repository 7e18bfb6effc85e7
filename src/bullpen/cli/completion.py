"""`bullpen completion`: what makes a shell complete our commands, options, sessions and models."""

from __future__ import annotations

import click


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> int:
    """Print a script that makes SHELL complete commands, options, session ids, models and providers.

    \b
    Examples:
      bullpen completion bash > ~/.local/share/bash-completion/completions/bullpen
      bullpen completion zsh > "${fpath[1]}/_bullpen"
      bullpen completion fish > ~/.config/fish/completions/bullpen.fish
    """
    from click.shell_completion import get_completion_class

    from bullpen.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "bullpen", "_BULLPEN_COMPLETE").source())
    return 0
