"""What the shell offers behind an option: sessions of this directory, models and providers.

Only what is at hand: no server is started, no workspace opened, no host asked. What cannot be had is not offered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Finder = Callable[[], Iterable[tuple[str, str]]]


def _completion(find: Finder) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found: list[tuple[str, str]] = []
        # Nobody wants an error in the middle of a line that is being typed.
        with suppress(Exception):
            found = list(find())
        return [CompletionItem(value, help=told) for value, told in found if value.startswith(incomplete)]

    return complete


def _sessions() -> Iterable[tuple[str, str]]:
    from bullpen.cli.calls import get
    from bullpen.client.locate import find_address
    from bullpen.present.inert import inert_line

    address = find_address(None)
    here = os.path.realpath(os.curdir)
    for workspace in get(address, "/workspaces"):
        if os.path.realpath(workspace["path"]) == here:
            for session in get(address, f"/workspaces/{workspace['id']}/sessions"):
                yield session["id"], inert_line(session["title"])


def _models() -> Iterable[tuple[str, str]]:
    from bullpen.cli.known import providers_here
    from bullpen.present.inert import inert_line

    for provider in providers_here(look=False):
        if provider.is_usable:
            for model in provider.models:
                yield f"{provider.id}/{model.id}", inert_line(model.name)


def _providers() -> Iterable[tuple[str, str]]:
    from bullpen.cli.known import providers_here
    from bullpen.present.inert import inert_line

    for provider in providers_here(look=False):
        yield provider.id, inert_line(provider.name)


sessions = _completion(_sessions)
models = _completion(_models)
providers = _completion(_providers)
