"""A session's document without what looks like a secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from bullpen.schema.transfer import SessionDocument

_SPOKEN = frozenset(
    {
        "text", "thinking", "content", "command", "output", "details", "message", "title", "active_form", "url", "data",
    }
)  # fmt: skip
"""The fields in which anybody's words stand; `data` is a tool's, where it is a text at all."""

_JSON = frozenset({"input", "metadata"})
"""Those that hold JSON as a text, and have to go on doing so."""


def redacted(document: SessionDocument, without: Callable[[str], str]) -> SessionDocument:
    """The document with `without` applied to all that was said, read, run or written in it. Attached pictures stay as they are."""
    plain = msgspec.to_builtins(document)
    for message in plain["messages"]:
        for part in message["parts"]:
            if part["type"] == "binary" and part["data"]["MIMEType"].startswith("text/"):
                part["data"]["Data"] = _text_file(part["data"]["Data"], without)
    return msgspec.convert(_walk(plain, without), SessionDocument)


def _walk(value: Any, without: Callable[[str], str]) -> Any:
    if isinstance(value, list | tuple):
        return [_walk(each, without) for each in value]
    if isinstance(value, dict):
        return {key: _field(key, each, without) for key, each in value.items()}
    return value


def _field(key: str, value: Any, without: Callable[[str], str]) -> Any:
    if not isinstance(value, str):
        return _walk(value, without)
    if key in _JSON:
        return _json(value, without)
    return without(value) if key in _SPOKEN else value


def _json(text: str, without: Callable[[str], str]) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return without(text)
    return json.dumps(_leaves(value, "", without), ensure_ascii=False)


def _leaves(value: Any, name: str, without: Callable[[str], str]) -> Any:
    """Every text in it; a short one is looked at together with its name, which may tell what it is."""
    if isinstance(value, list):
        return [_leaves(each, name, without) for each in value]
    if isinstance(value, dict):
        return {key: _leaves(each, key, without) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    before = f"{name}="
    named = without(before + value)
    return named[len(before) :] if named.startswith(before) else without(value)


def _text_file(encoded: str, without: Callable[[str], str]) -> str:
    content = msgspec.convert(encoded, bytes).decode("utf-8", "replace")
    cleaned: str = msgspec.to_builtins(without(content).encode())
    return cleaned
