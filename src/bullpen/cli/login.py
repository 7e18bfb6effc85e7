"""`bullpen login`: a key or a login for a provider, tested before it is kept."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from bullpen.cli import completing

if TYPE_CHECKING:
    from bullpen.schema.api import LoginCode

KEY_BYTES = 16 * 1024


@click.command("login", short_help="Keep a provider's key, or log in to GitHub Copilot.")
@click.argument("provider", shell_complete=completing.providers)
@click.option(
    "--host",
    metavar="HOST",
    default="github.com",
    envvar="BULLPEN_COPILOT_HOST",
    help="copilot: the GitHub of an enterprise (BULLPEN_COPILOT_HOST).",
)
def command(provider: str, host: str) -> int:
    """Ask for the key of PROVIDER, test it, and keep it in your data directory, for all workspaces.

    The key is not shown while it is typed; it can also be piped in. `bullpen login copilot` shows a code to enter at GitHub.

    \b
    Examples:
      bullpen login openai
      pass show anthropic | bullpen login anthropic
      bullpen login copilot
    """
    if provider == "copilot":
        _log_in_to_copilot(host)
    else:
        _keep_key(provider)
    return 0


def _log_in_to_copilot(host: str) -> None:
    from bullpen.cli.known import ask_network
    from bullpen.config import tokens
    from bullpen.config.places import Places
    from bullpen.present.inert import inert_line
    from bullpen.providers import copilot_login

    hosts = copilot_login.Hosts.of(host)

    def show(code: LoginCode) -> None:
        click.echo(
            f"open {inert_line(code.verification_uri)} and enter the code {inert_line(code.user_code)}"
        )
        click.echo("waiting for GitHub …", err=True)

    token = ask_network(partial(copilot_login.log_in_with_code, hosts, show=show))
    tokens.store(Places.of(os.environ).state_file, "copilot", token)
    click.echo("logged in to GitHub Copilot; 'bullpen models --provider copilot' lists its models")


def _keep_key(provider: str) -> None:
    from bullpen.cli.known import ask_network, settings_here
    from bullpen.config.keyless import reached
    from bullpen.config.places import Places
    from bullpen.config.write import set_provider_key
    from bullpen.present.keys import kept_line
    from bullpen.providers.key_check import check_key

    settings = reached(settings_here(), provider, os.environ)
    key = _asked_for(settings.name)
    checked = ask_network(partial(check_key, settings, key))
    if checked.verdict == "refused":
        raise click.ClickException(f"{checked.message}; nothing was kept")
    set_provider_key(Places.of(os.environ).state_file, provider, "string", key)
    click.echo(kept_line(settings.name, checked))


def _asked_for(name: str) -> str:
    if sys.stdin.isatty():
        key = str(click.prompt(f"key of {name}", hide_input=True, err=True)).strip()
    else:
        key = sys.stdin.read(KEY_BYTES).strip()
    if not key:
        raise click.ClickException("that is no key: one word without spaces is wanted")
    return key
