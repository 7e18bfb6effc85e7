"""`bullpen models`: what can be used, what is known, what is liked, and bringing the catalogue up to date."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bullpen.cli.known import Provider
    from bullpen.schema.agent import Model


class ListByDefault(click.Group):
    """`bullpen models gpt` is `bullpen models list gpt`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group(
    "models", cls=ListByDefault, short_help="List models, prices and favourites; update the catalogue."
)
def command() -> None:
    """List the models that can be used here, with their context, prices and reasoning levels.

    \b
    Examples:
      bullpen models                       those that can be used now
      bullpen models sonnet                all that are known with this in their name
      bullpen models --provider openai     all of one provider
      bullpen models favorite openai/gpt-5.6-sol
      bullpen models update catalog.json
    """


@command.command("list", short_help="List models.")
@click.argument("text", default="")
@click.option("--provider", "-P", metavar="ID", default="", help="Only this provider's.")
@click.option("--all", "-a", "show_all", is_flag=True, help="Also those that cannot be used yet.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_models(text: str, provider: str, show_all: bool, as_json: bool) -> int:
    """List models. TEXT, a provider or --all also shows models that cannot be used yet, marked with a minus sign.

    Prices are dollars per million tokens: input, output, reading from the cache.

    \b
    Examples:
      bullpen models list
      bullpen models list opus
      bullpen models list --provider openai --json | jq -r '.[].id'
    """
    from bullpen.cli.known import providers_here
    from bullpen.config.places import Places
    from bullpen.config.write import remembered
    from bullpen.present.inert import inert_line

    known = providers_here()
    if provider and provider not in {p.id for p in known}:
        raise click.ClickException(_no_provider(provider, known))
    wanted = [
        (p, m)
        for p in known
        for m in p.models
        if (p.is_usable or show_all or text or provider)
        and (not provider or p.id == provider)
        and text.lower() in f"{p.id}/{m.id} {m.name}".lower()
    ]
    liked = {(m.provider, m.model) for m in remembered(Places.of(os.environ).state_file).favorites}
    if as_json:
        click.echo(json.dumps([_as_object(p, m, (p.id, m.id) in liked) for p, m in wanted]))
        return 0
    for p, m in sorted(wanted, key=lambda row: (row[0].id, row[1].id) not in liked):
        mark = "*" if (p.id, m.id) in liked else " " if p.is_usable else "-"
        name = inert_line(f"{p.id}/{m.id}")
        row = f"{mark} {name:<48} {_size(m.context_window):>6}  {_prices(m):<20}  {inert_line(_abilities(m))}"
        click.echo(row.rstrip())
    if not wanted:
        click.echo(
            "no model matches"
            if text or provider
            else "no model can be used yet: 'bullpen providers' says why",
            err=True,
        )
    return 0 if wanted else 1


@command.command("favorite", short_help="List or change the favourites.")
@click.argument("name", default="")
@click.option("--remove", is_flag=True, help="Take it from the favourites.")
@click.option("--json", "as_json", is_flag=True, help="Print the favourites as a JSON list.")
def favorite(name: str, remove: bool, as_json: bool) -> int:
    """Put a model (provider/model) first among the favourites, or list them.

    \b
    Examples:
      bullpen models favorite
      bullpen models favorite openai/gpt-5
      bullpen models favorite --remove openai/gpt-5
    """
    from bullpen.cli.known import providers_here
    from bullpen.config.catalogue import nearest
    from bullpen.config.places import Places
    from bullpen.config.write import favor, remembered
    from bullpen.schema.agent import Model
    from bullpen.schema.api import FavoriteModel

    file = Places.of(os.environ).state_file
    if not name:
        liked = [f"{model.provider}/{model.model}" for model in remembered(file).favorites]
        if as_json or liked:
            click.echo(json.dumps(liked) if as_json else "\n".join(liked))
        return 0
    provider, _, model_id = name.partition("/")
    if not remove:
        names = [Model(id=f"{p.id}/{m.id}") for p in providers_here(look=False) for m in p.models]
        if name not in {m.id for m in names}:
            near = nearest(name, names)
            hint = f"; did you mean {near}?" if near else "; 'bullpen models --all' lists them"
            raise click.ClickException(f"no model {name} is known{hint}")
    favor(file, FavoriteModel(provider=provider, model=model_id, favorite=not remove))
    return 0


@command.command("update", short_help="Replace the catalogue of models.")
@click.argument("source", default="", metavar="[FILE|URL]")
@click.option("--reset", is_flag=True, help="Go back to the catalogue that came with this version.")
def update(source: str, reset: bool) -> int:
    """Take the catalogue of models from a FILE or an https URL, or go back to the one that came with this version.

    It is checked before it is kept, and used where it is newer than the packaged one. Nothing is ever fetched by itself.

    \b
    Examples:
      bullpen models update catalog.json
      bullpen models update --reset
    """
    from bullpen.cli.known import tell_server
    from bullpen.config import catalogue
    from bullpen.config.machine_file import replace_file
    from bullpen.config.places import Places
    from bullpen.errors import ConfigError

    target = Places.of(os.environ).data / catalogue.UPDATE
    if reset == bool(source):
        raise click.UsageError("name a file or an address, or say --reset", click.get_current_context())
    if reset:
        target.unlink(missing_ok=True)
        tell_server()
        click.echo(f"using the catalogue of {catalogue.load().generated_at[:10]} that came with this version")
        return 0
    text = _fetched(source)
    try:
        file = catalogue.checked(text)
    except ConfigError as exc:
        raise click.ClickException(f"{source} is not used: {exc}") from exc
    packaged = catalogue.load()
    if file.generated_at <= packaged.generated_at:
        raise click.ClickException(
            f"{source} is of {file.generated_at[:10]}, not newer than the one that came with this version "
            f"({packaged.generated_at[:10]}); nothing was changed"
        )
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(target, text)
    tell_server()
    count = sum(len(entry.models) for entry in catalogue.Catalogue(file).offers())
    click.echo(f"{len(file.providers)} providers and {count} models of {file.generated_at[:10]}")
    return 0


def _fetched(source: str) -> bytes:
    """The bytes of a file, or of an address. Raises `ClickException`."""
    from pathlib import Path

    if "://" not in source:
        try:
            return Path(source).expanduser().read_bytes()
        except OSError as exc:
            raise click.ClickException(f"{source} cannot be read: {exc.strerror}") from exc
    if not source.startswith(("https://", "http://127.0.0.1:", "http://localhost:")):
        raise click.ClickException("only https addresses, files, and servers of this machine are taken")
    return _downloaded(source)


def _downloaded(url: str) -> bytes:
    import anyio
    import httpx2

    from bullpen.cli.known import ask_network
    from bullpen.config.catalogue import MAX_BYTES
    from bullpen.providers.http import ModelClient

    async def work(http: ModelClient) -> bytes:
        with anyio.fail_after(30):
            async with http.stream("GET", url, follow_redirects=True) as response:
                if response.status_code != 200:
                    raise click.ClickException(f"{url} answered {response.status_code}")
                text = b""
                async for part in response.aiter_bytes():
                    text += part
                    if len(text) > MAX_BYTES:
                        break
                return text

    try:
        return ask_network(work)
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as exc:
        raise click.ClickException(f"{url} cannot be had: {exc or type(exc).__name__}") from exc


def _no_provider(name: str, known: list[Provider]) -> str:
    import difflib

    near = difflib.get_close_matches(name, [p.id for p in known], 1, 0.4)
    return f"there is no provider {name}" + (
        f"; did you mean {near[0]}?" if near else "; see 'bullpen providers'"
    )


def _as_object(provider: Provider, model: Model, is_favorite: bool) -> dict[str, Any]:
    import msgspec

    described: dict[str, Any] = msgspec.to_builtins(model)
    return {
        "provider": provider.id,
        "usable": provider.is_usable,
        "missing": provider.missing,
        "favorite": is_favorite,
        **described,
    }


def _size(tokens: int) -> str:
    if not tokens:
        return "?"
    return f"{tokens / 1_000_000:.3g}M" if tokens >= 1_000_000 else f"{tokens / 1000:.3g}k"


def _prices(model: Model) -> str:
    if not model.cost_per_1m_in and not model.cost_per_1m_out:
        return "no price"
    return f"${model.cost_per_1m_in:g} ${model.cost_per_1m_out:g} ${model.cost_per_1m_out_cached:g}"


def _abilities(model: Model) -> str:
    levels = model.reasoning_levels or ()
    told = [
        "/".join(levels) if levels else "thinks" if model.can_reason else "",
        "pictures" if model.supports_attachments else "",
        "no tools" if model.supports_tools is False else "",
    ]
    return ", ".join(word for word in told if word)
