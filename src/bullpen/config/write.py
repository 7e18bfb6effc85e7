"""Changes to machine-written config, one key at a time. What a person wrote by hand is never written to.

Every function gives back what it wrote as a config layer, so that a running workspace can keep the choice although a
file outranks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bullpen.config.check import check
from bullpen.config.expand import escape, is_reference
from bullpen.config.jsonc import read_object
from bullpen.config.machine_file import change_file
from bullpen.config.places import Places
from bullpen.config.shape import ROLES
from bullpen.errors import BadRequest
from bullpen.schema.agent import SelectedModel
from bullpen.schema.api import FavoriteModel, RememberedModels

GLOBAL, WORKSPACE = 0, 1
"""The scopes of the wire."""

MAX_KEY_CHARS = 512
MAX_KEY_DEPTH = 12
MAX_VALUE_BYTES = 256 * 1024
RECENT = 5
"""How many models are remembered per role."""

FAVORITES = 100

Layer = dict[str, Any]


def scope_file(scope: int, places: Places, workspace_state: Path) -> Path:
    """The file that a scope of the wire means. Raises `BadRequest`."""
    if scope == GLOBAL:
        return places.state_file
    if scope == WORKSPACE:
        return workspace_state
    raise BadRequest(f"unknown config scope {scope} (0 is global, 1 is the workspace)")


def set_value(file: Path, key: str, value: Any) -> Layer:
    """Set one field by its dotted key; `\\.` is a dot in a name. Raises `BadRequest`."""
    path = parse_key(key)
    _check_value(value)
    _change(file, lambda content: _set(content, path, value))
    return _nested(path, value)


def remove_value(file: Path, key: str) -> Layer:
    """Remove one field; an absent one is fine. Raises `BadRequest`."""
    path = parse_key(key)
    _change(file, lambda content: _remove(content, path))
    return {}


def select_model(file: Path, role: str, model: SelectedModel) -> Layer:
    """Choose the model of a role and remember it among the recent ones. Raises `BadRequest`."""
    if role not in ROLES:
        raise BadRequest(f"unknown model type {role!r} (large or small)")
    if not model.model or not model.provider:
        raise BadRequest("model and provider are required")
    chosen = msgspec.to_builtins(model)

    def change(content: Layer) -> None:
        _set(content, ("models", role), chosen)
        _put_first(content, ("recent_models", role), chosen, RECENT)

    _change(file, change)
    return {"models": {role: chosen}}


def remember_model(file: Path, role: str, model: SelectedModel) -> None:
    """Note that a model was picked, without choosing it for anybody else."""
    chosen = msgspec.to_builtins(model)
    _change(file, lambda content: _put_first(content, ("recent_models", role), chosen, RECENT))


def favor(file: Path, body: FavoriteModel) -> None:
    """Put a model first among the favourites, or take it from them. Raises `BadRequest`."""
    if not body.model or not body.provider:
        raise BadRequest("model and provider are required")
    chosen = {"provider": body.provider, "model": body.model}
    path = ("favorite_models",)
    if body.favorite:
        _change(file, lambda content: _put_first(content, path, chosen, FAVORITES))
    else:
        _change(file, lambda content: _set(content, path, _others(content.get(path[0]), chosen)))


def remembered(file: Path) -> RememberedModels:
    """The recent and the favourite models. What is not understood is left out. Raises `ConfigError`."""
    content = check(read_object(file) or {}).content
    return RememberedModels(
        recent=msgspec.convert(content.get("recent_models", {}), dict[str, tuple[SelectedModel, ...]]),
        favorites=msgspec.convert(content.get("favorite_models", ()), tuple[SelectedModel, ...]),
    )


def set_compact(file: Path, enabled: bool) -> Layer:
    return set_value(file, "options.tui.compact_mode", enabled)


def set_provider_key(file: Path, provider_id: str, kind: str, key: Any) -> Layer:
    """Store a provider's key: a string, or an OAuth token. Raises `BadRequest`.

    A token is no layer to be kept in memory: others renew it on disk."""
    if not provider_id or len(provider_id) > MAX_KEY_CHARS:
        raise BadRequest("provider_id is required")
    value: Any
    match kind:
        case "string":
            if not isinstance(key, str):
                raise BadRequest("decode api key string: a string is wanted")
            written = key if is_reference(key) else escape(key)
            path, value = ("providers", provider_id, "api_key"), written
        case "oauth":
            if not isinstance(key, dict) or not isinstance(key.get("access_token"), str):
                raise BadRequest("decode api key token: an object with access_token is wanted")
            path, value = ("providers", provider_id, "oauth"), key
        case _:
            raise BadRequest(f'unsupported api key kind "{kind}"')
    _check_value(value)

    def change(content: Layer) -> None:
        stale = "oauth" if kind == "string" else "api_key"
        _remove(content, ("providers", provider_id, stale))
        _set(content, path, value)

    _change(file, change)
    return {} if kind == "oauth" else _nested(path, value)


def parse_key(key: str) -> tuple[str, ...]:
    """The steps of a dotted key. Raises `BadRequest`."""
    if not key:
        raise BadRequest("key is required")
    if len(key) > MAX_KEY_CHARS:
        raise BadRequest(f"the key is longer than {MAX_KEY_CHARS} characters")
    steps = tuple(step.replace("\\.", ".") for step in re.split(r"(?<!\\)\.", key))
    if not all(steps):
        raise BadRequest(f"{key!r} is not a dotted key")
    if len(steps) > MAX_KEY_DEPTH:
        raise BadRequest(f"{key!r} has more than {MAX_KEY_DEPTH} steps")
    if any(not step.isprintable() or step.endswith("!") for step in steps):
        raise BadRequest(f"{key!r} is not a dotted key")
    return steps


def _check_value(value: Any) -> None:
    try:
        size = len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError) as exc:
        raise BadRequest("the value is not JSON") from exc
    if size > MAX_VALUE_BYTES:
        raise BadRequest(f"the value is larger than {MAX_VALUE_BYTES} bytes")


def _nested(path: tuple[str, ...], value: Any) -> Layer:
    layer: Any = value
    for step in reversed(path):
        layer = {step: layer}
    result: Layer = layer
    return result


def _set(content: Layer, path: tuple[str, ...], value: Any) -> None:
    *way, last = path
    for number, step in enumerate(way, 1):
        content = content.setdefault(step, {})
        if not isinstance(content, dict):
            raise BadRequest(f"{'.'.join(path[:number])!r} is no object, so {'.'.join(path)!r} cannot be set")
    content[last] = value


def _put_first(content: Layer, path: tuple[str, ...], chosen: Layer, most: int) -> None:
    """Put a model at the head of a list, where it stands once."""
    here: Any = content
    for step in path:
        here = here.get(step) if isinstance(here, dict) else None
    _set(content, path, [chosen, *_others(here, chosen)][:most])


def _others(listed: Any, chosen: Layer) -> list[Any]:
    identity = (chosen["provider"], chosen["model"])
    models = (m for m in (listed if isinstance(listed, list) else ()) if isinstance(m, dict))
    return [m for m in models if (m.get("provider"), m.get("model")) != identity]


def _remove(content: Layer, path: tuple[str, ...]) -> None:
    *way, last = path
    for step in way:
        inner = content.get(step)
        if not isinstance(inner, dict):
            return
        content = inner
    content.pop(last, None)


def _change(file: Path, change: Callable[[Layer], None]) -> None:
    """Change the file unless that would make it wrong. Raises `BadRequest`."""

    def checked(content: Layer) -> None:
        before = check(content).wrong
        change(content)
        wrong = check(content).wrong - before
        if wrong:
            raise BadRequest(min(complaint.sentence for complaint in wrong))

    change_file(file, checked)
