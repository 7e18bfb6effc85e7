"""How one config file is laid over another.

Objects are merged key by key, the later scalar wins, arrays are put one after the other. Two marks undo what
an outer file says: `null` takes a key away, and a key with an exclamation mark at its end (`"context_paths!"`)
replaces the value instead of adding to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

REPLACE = "!"


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both objects as one; neither is changed."""
    merged = dict(base)
    for key, value in over.items():
        name = key.removesuffix(REPLACE)
        if value is None:
            merged.pop(name, None)
        elif name != key:
            merged[name] = _plain(value)
        else:
            merged[name] = _merge_values(merged.get(name), value)
    return merged


def merge_all(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge(merged, layer)
    return merged


def _merge_values(base: Any, over: Any) -> Any:
    if isinstance(over, Mapping):
        return merge(base if isinstance(base, Mapping) else {}, over)
    if isinstance(over, list):
        return _joined(base, over) if isinstance(base, list) else _joined([], over)
    return over


def _joined(first: list[Any], second: list[Any]) -> list[Any]:
    """Both lists; a string of the first is not repeated. Inside one list repetition may have a meaning."""
    known = {item for item in first if isinstance(item, str)}
    return first + [item for item in second if not (isinstance(item, str) and item in known)]


def _plain(value: Any) -> Any:
    """The value without marks."""
    return _merge_values(None, value)
