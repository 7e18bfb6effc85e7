"""`bullpen logout`: forget a provider's key or login."""

from __future__ import annotations

import os

import click

from bullpen.cli import completing


@click.command("logout", short_help="Forget a provider's key or login.")
@click.argument("provider", shell_complete=completing.providers)
def command(provider: str) -> int:
    """Forget the key or login that `bullpen login` kept for PROVIDER. Keys in the environment and in files that you wrote
    stay where they are.

    \b
    Examples:
      bullpen logout openai
      bullpen logout copilot
    """
    from bullpen.config import tokens
    from bullpen.config.places import Places

    if not tokens.remove(Places.of(os.environ).state_file, provider):
        raise click.ClickException(f"there is no login of {provider} to forget")
    click.echo(f"the login of {provider} is forgotten")
    return 0
