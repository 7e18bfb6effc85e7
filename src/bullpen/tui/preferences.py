"""How this person likes their terminal. Read before the first paint, from a file of the machine one sits at: a server far away has
no say in it.

    {"theme": "light", "keys": {"palette": "ctrl+k"}, "motion": "reduced", "mouse": true, "notify": "auto"}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from bullpen.errors import BadRequest

Notify = Literal["auto", "osc", "bell", "off"]


class Preferences(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`motion` "reduced" stops everything that moves by itself. `keys` gives actions other keys, by the ids that the help shows."""

    theme: Literal["auto", "dark", "light", "contrast"] = "auto"
    keys: dict[str, str] = msgspec.field(default_factory=dict)
    motion: Literal["full", "reduced"] = "full"
    mouse: bool = True
    notify: Notify = "auto"
    diff: Literal["auto", "unified", "split"] = "auto"
    sidebar: bool = True
    editor: str = ""
    """The program for long prompts; `$VISUAL`, `$EDITOR` where it is empty."""


def filled(own: Preferences, told: Mapping[str, object]) -> Preferences:
    """What a person left open, as the server's configuration says it (`options.tui`)."""
    diff, theme = told.get("diff_mode"), told.get("theme")
    return msgspec.structs.replace(
        own,
        diff=diff if own.diff == "auto" and diff in ("unified", "split") else own.diff,
        theme=theme if own.theme == "auto" and theme in ("dark", "light", "contrast") else own.theme,
        sidebar=own.sidebar and told.get("compact_mode") is not True,
    )


def path(env: Mapping[str, str] = os.environ) -> Path:
    """Where they lie."""
    home = env.get("XDG_CONFIG_HOME") or os.path.join(env.get("HOME") or os.path.expanduser("~"), ".config")
    return Path(home, "bullpen", "terminal.json")


def load(file: Path | None = None) -> tuple[Preferences, str]:
    """What the file says, and what is wrong with it: then the defaults hold, and a person can still work."""
    file = file or path()
    try:
        return msgspec.json.decode(file.read_bytes(), type=Preferences), ""
    except FileNotFoundError:
        return Preferences(), ""
    except (OSError, msgspec.DecodeError) as exc:
        return Preferences(), f"{file} is not used: {exc}"


def save(preferences: Preferences, file: Path | None = None) -> None:
    """Write them down, whole or not at all. Raises `BadRequest` where that cannot be done."""
    file = file or path()
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(preferences), indent=2) + b"\n")
        beside.replace(file)
    except OSError as exc:
        raise BadRequest(f"{file} cannot be written: {exc.strerror}") from exc
