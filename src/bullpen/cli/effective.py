"""The configuration of a directory as `bullpen config` and `bullpen trust` look at it: from files, without a server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from bullpen.config import write
from bullpen.config.check import check, dotted
from bullpen.config.items import Trusted
from bullpen.config.layers import Layers, read_layers
from bullpen.config.load import load
from bullpen.config.places import Places, project_files, workspace_file
from bullpen.config.redact import shown_part
from bullpen.config.settings import Settings
from bullpen.config.shape import default_of
from bullpen.config.trusted import TrustBook
from bullpen.errors import BadRequest
from bullpen.present.inert import inert_line
from bullpen.workspace.place import find_place


@dataclass(frozen=True)
class Effective:
    """What is configured at `root`."""

    root: Path
    places: Places
    layers: Layers
    merged: dict[str, Any]
    origins: dict[str, tuple[str, ...]]


def read(root: Path) -> Effective:
    places = Places.of(os.environ)
    layers = read_layers(
        root,
        places=places,
        workspace_state=_workspace_state(root, places),
        trusted=_trust(root, places),
    )
    return Effective(root, places, layers, layers.merged(), layers.origins())


def trusts_all() -> bool:
    return os.environ.get("BULLPEN_TRUST", "") == "1"


def rows(found: Effective) -> list[tuple[str, Any, tuple[str, ...]]]:
    """Every setting in force with where it was said, by its key."""
    shown = shown_part(found.merged)
    return sorted((key, value, found.origins.get(key, ())) for key, value in _settings(shown, ()))


def as_json(found: Effective) -> dict[str, Any]:
    return {
        "settings": [{"key": key, "value": value, "origins": origins} for key, value, origins in rows(found)],
        "warnings": found.layers.warnings,
        "problems": found.layers.problems,
        "untrusted": found.layers.untrusted,
    }


def look_up(found: Effective, key: str) -> tuple[Any, list[str]]:
    """The value of a setting, or its default, and where it was said. Raises `BadRequest` for an unknown one."""
    steps = write.parse_key(key)
    here: Any = shown_part(found.merged)
    for step in steps:
        here = here.get(step) if isinstance(here, Mapping) else None
    name = dotted(steps)
    if here is not None:
        places = [o for k, v in found.origins.items() if k == name or k.startswith(f"{name}.") for o in v]
        return here, list(dict.fromkeys(places))
    _refuse_unknown(steps, None)
    return msgspec.to_builtins(default_of(steps)), []


def change(root: Path, scope: str, key: str, value: Any) -> Path:
    """Set a setting in the file of a scope, or take it out when there is no value; gives back the file.

    Raises `BadRequest`.
    """
    places = Places.of(os.environ)
    steps = write.parse_key(key)
    number = write.GLOBAL if scope == "global" else write.WORKSPACE
    file = write.scope_file(number, places, _workspace_state(root, places))
    if value is None:
        write.remove_value(file, key)
        return file
    _refuse_unknown(steps, value)
    write.set_value(file, key, value)
    _, said = look_up(read(root), key)
    others = ", ".join(place for place in said if not place.startswith(f"{file}:"))
    if others:
        click.echo(
            f"note: {inert_line(key)} is also set in {inert_line(others)}, which may outrank it", err=True
        )
    return file


def checked(root: Path) -> dict[str, Any]:
    """Everything that a server would say about the configuration."""
    settings, places = settings_of(root)
    return {
        "files": list(map(str, config_files(root, places))),
        "problems": settings.problems,
        "warnings": settings.warnings,
        "untrusted": settings.untrusted,
    }


def settings_of(root: Path) -> tuple[Settings, Places]:
    """What a server would make of the files; your own commands in values are run."""
    places = Places.of(os.environ)
    settings = load(
        root,
        env=os.environ,
        workspace_state=_workspace_state(root, places),
        places=places,
        trusted=_trust(root, places),
    )
    return settings, places


def config_files(root: Path, places: Places) -> list[Path]:
    """The files that count, lowest first."""
    own = (places.system_file, places.state_file, places.user_file)
    inside = (*project_files(root), _workspace_state(root, places))
    return [file for file in (*own, *inside) if file.is_file()]


def tell(found: Effective) -> None:
    """Say what is not in force, and why."""
    for problem in found.layers.problems:
        click.echo(f"FAIL  {inert_line(problem)}", err=True)
    for warning in found.layers.warnings:
        click.echo(f"warn  {inert_line(warning)}", err=True)
    if found.layers.untrusted:
        held = inert_line(", ".join(found.layers.untrusted))
        click.echo(f"warn  not in force: {held} ('bullpen trust' shows it)", err=True)


def _trust(root: Path, places: Places) -> Trusted:
    return trusts_all() or TrustBook(places.trust_file).items(root)


def _workspace_state(root: Path, places: Places) -> Path:
    return workspace_file(places.data, find_place(str(root), "", places.data).id)


def _settings(value: Mapping[str, Any], steps: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from _settings(inner, (*steps, key))
        else:
            yield dotted((*steps, key)), inner


def _refuse_unknown(steps: tuple[str, ...], value: Any) -> None:
    """A key that nothing reads is most likely a slip of the fingers."""
    layer: Any = value if value is not None else {}
    for step in reversed(steps):
        layer = {step: layer}
    for complaint in check(layer).complaints:
        if complaint.sentence.startswith("unknown key") and len(complaint.steps) <= len(steps):
            raise BadRequest(complaint.sentence)
