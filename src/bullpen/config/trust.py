"""What a project's config may do before a person trusts it: next to nothing.

Only what cannot run, reach, read or spend anything is let through; the rest is inert, named, and hashed, so
that trust can be given to exactly that content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from bullpen.config.merge import REPLACE

HARMLESS_OPTIONS = frozenset(
    {
        "attribution",
        "disable_auto_summarize",
        "disable_metrics",
        "disabled_skills",
        "disabled_tools",
        "notifications",
        "progress",
        "tui",
    }
)
"""Looks, and restrictions. A project may take a tool away; lists only grow, so it cannot give one back."""

HARMLESS = frozenset({"$schema", "tools", "recent_models"})

_deterministic = msgspec.json.Encoder(order="deterministic")


def split(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What may take effect without trust, and the rest."""
    harmless: dict[str, Any] = {}
    inert: dict[str, Any] = {}
    for key, value in content.items():
        if key == "options" and isinstance(value, Mapping):
            kept = {k: _without_marks(v) for k, v in value.items() if k in HARMLESS_OPTIONS and v is not None}
            rest = {k: v for k, v in value.items() if k not in kept}
            harmless |= {key: kept} if kept else {}
            inert |= {key: rest} if rest else {}
        elif key in HARMLESS and value is not None:
            harmless[key] = _without_marks(value)
        else:
            inert[key] = value
    return harmless, inert


def names(inert: Mapping[str, Any]) -> list[str]:
    """The settings in dotted form, two steps deep: `mcp.github`, `hooks.PreToolUse`, `options.context_paths`."""
    found: list[str] = []
    for key, value in inert.items():
        if isinstance(value, Mapping) and value:
            found += (f"{key}.{inner}" for inner in value)
        else:
            found.append(key)
    return found


def fingerprint(inert: Mapping[str, Mapping[str, Any]]) -> str:
    """The hash of what is inert, by file; "" when nothing is."""
    filled = {file: content for file, content in inert.items() if content}
    return hashlib.sha256(_deterministic.encode(filled)).hexdigest() if filled else ""


def _without_marks(value: Any) -> Any:
    """The value without the marks that would undo what the user said."""
    if isinstance(value, Mapping):
        return {
            k: _without_marks(v) for k, v in value.items() if v is not None and not str(k).endswith(REPLACE)
        }
    return value
