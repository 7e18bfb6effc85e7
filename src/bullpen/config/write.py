"""Changes to machine-written config: one key at a time, whole or not at all.

A change takes a lock, reads the file, writes a new one beside it, syncs it and renames it over the old one, so
that a crash leaves the old or the new content, and two processes do not lose each other's changes. Files are
0600, because they hold keys. Every function gives back what it wrote as a config layer, so that a running
workspace can keep the choice although a file outranks it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from bullpen.config.expand import escape, is_reference
from bullpen.config.jsonc import read_object
from bullpen.config.places import Places
from bullpen.config.selection import ROLES
from bullpen.config.shape import check
from bullpen.errors import BadRequest, ConfigError
from bullpen.schema.agent import SelectedModel

GLOBAL, WORKSPACE = 0, 1
"""The scopes of the wire."""

MAX_KEY_CHARS = 512
MAX_KEY_DEPTH = 12
MAX_VALUE_BYTES = 256 * 1024
LOCK_LIMIT_S = 5.0
"""A change takes milliseconds; whoever holds the lock longer hangs."""

RECENT = 5
"""How many models are remembered per role."""

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
        recent = content.get("recent_models", {}).get(role, [])
        others = [r for r in recent if (r.get("provider"), r.get("model")) != (model.provider, model.model)]
        _set(content, ("recent_models", role), [chosen, *others][:RECENT])

    _change(file, change)
    return {"models": {role: chosen}}


def set_compact(file: Path, enabled: bool) -> Layer:
    return set_value(file, "options.tui.compact_mode", enabled)


def set_provider_key(file: Path, provider_id: str, kind: str, key: Any) -> Layer:
    """Store a provider's key: a string, or an OAuth token. Raises `BadRequest`."""
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
    return _nested(path, value)


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


def _remove(content: Layer, path: tuple[str, ...]) -> None:
    *way, last = path
    for step in way:
        inner = content.get(step)
        if not isinstance(inner, dict):
            return
        content = inner
    content.pop(last, None)


def _change(file: Path, change: Callable[[Layer], None]) -> None:
    for directory in (*reversed(file.parent.parents), file.parent):
        directory.mkdir(mode=0o700, exist_ok=True)
    with _locked(file.with_name(file.name + ".lock")):
        content = read_object(file) or {}
        before = set(check(content).wrong)
        change(content)
        wrong = [sentence for sentence in check(content).wrong if sentence not in before]
        if wrong:
            raise BadRequest(wrong[0])
        _replace(file, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


@contextlib.contextmanager
def _locked(lock: Path) -> Iterator[None]:
    """Hold the lock file. It is never removed: another process may be waiting on it."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        end = time.monotonic() + LOCK_LIMIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise ConfigError(f"another process holds {lock}; try again") from None
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def _replace(file: Path, text: bytes) -> None:
    """The new content under the old name, on disk when this returns."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=file.name + ".")
    try:
        with os.fdopen(descriptor, "wb") as opened:
            os.fchmod(opened.fileno(), 0o600)
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
