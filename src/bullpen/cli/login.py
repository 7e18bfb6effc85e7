"""`bullpen login`: a key or a login for a provider, tested before it is kept."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from bullpen.cli import completing

if TYPE_CHECKING:
    from bullpen.config.settings import ProviderSettings
    from bullpen.providers.http import ModelClient

TEST_LIMIT_S = 5.0

PREFIXES = {"bedrock": "ABSK", "bedrock-europe": "ABSK", "vercel": "vck_", "alibaba-singapore": "sk-"}
"""What keys begin with where the host cannot be asked about them."""

UNTESTED = frozenset({"minimax", "minimax-china", *PREFIXES})
KEY_BYTES = 16 * 1024


@click.command("login", short_help="Keep a provider's key, or log in to GitHub Copilot.")
@click.argument("provider", shell_complete=completing.providers)
@click.option("--host", metavar="HOST", default="github.com", help="copilot: the GitHub of an enterprise.")
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
    from bullpen.providers import copilot_login

    hosts = copilot_login.Hosts.of(host)

    async def work(http: ModelClient) -> None:
        code = await copilot_login.begin(hosts, http)
        click.echo(f"open {code.verification_uri} and enter the code {code.user_code}")
        click.echo("waiting for GitHub …", err=True)
        github_token = await copilot_login.wait_for_person(hosts, code, http)
        token = await copilot_login.log_in(github_token, hosts, http)
        tokens.store(Places.of(os.environ).state_file, "copilot", token)

    ask_network(work)
    click.echo("logged in to GitHub Copilot; 'bullpen models --provider copilot' lists its models")


def _keep_key(provider: str) -> None:
    from bullpen.config.places import Places
    from bullpen.config.write import set_provider_key

    settings = _settings_of(provider)
    key = _asked_for(settings.name)
    said = _tested(settings, key)
    set_provider_key(Places.of(os.environ).state_file, provider, "string", key)
    click.echo(f"the key of {settings.name} is kept{said}")


def _settings_of(provider: str) -> ProviderSettings:
    """How the provider is reached, whether or not it has a key yet. Raises `ClickException`."""
    from bullpen.cli.known import settings_here
    from bullpen.config.expand import expand
    from bullpen.config.keys import overridden
    from bullpen.config.settings import ProviderSettings

    settings = settings_here()
    configured = settings.providers.get(provider) or settings.unlisted.get(provider)
    if configured is not None:
        return configured
    known = settings.catalogue.known(provider)
    if known is None or not known.api_key:
        near = _near(provider, [*settings.catalogue.ids, *settings.raw.get("providers", {})])
        raise click.ClickException(
            f"there is no provider {provider} that takes a key{near}; describe your own in bullpen.json first"
        )
    url = expand(known.api_endpoint, overridden(os.environ)).value
    return ProviderSettings(id=provider, name=known.name, type=known.type, base_url=url)


def _near(name: str, among: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, among, 1, 0.4)
    return f" (did you mean {near[0]}?)" if near else ""


def _asked_for(name: str) -> str:
    if sys.stdin.isatty():
        key = str(click.prompt(f"key of {name}", hide_input=True, err=True)).strip()
    else:
        key = sys.stdin.read(KEY_BYTES).strip()
    if not key or any(c.isspace() or not c.isprintable() for c in key):
        raise click.ClickException("that is no key: one word without spaces is wanted")
    return key


def _tested(settings: ProviderSettings, key: str) -> str:
    """What to add to the good news. Raises `ClickException` when the host refuses the key."""
    import msgspec

    from bullpen.cli.known import ask_network
    from bullpen.config.expand import is_reference
    from bullpen.errors import ProviderError
    from bullpen.providers import discover

    prefix = PREFIXES.get(settings.id, "")
    if not key.startswith(prefix):
        raise click.ClickException(f"keys of {settings.name} begin with {prefix}; nothing was kept")
    if settings.id in UNTESTED or is_reference(key) or not settings.base_url:
        return ""
    trying = msgspec.structs.replace(settings, api_key=key, token=None, key_source=None)
    try:
        ask_network(partial(discover.test_key, trying, limit_s=TEST_LIMIT_S))
    except ProviderError as exc:
        if exc.status in (401, 403):
            raise click.ClickException(
                f"{settings.name} refused the key ({exc.status}); nothing was kept"
            ) from exc
        return f", untested: {exc.details}"
    return "; it works"
