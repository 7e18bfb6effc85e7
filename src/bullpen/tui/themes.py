"""The colours: dark, light, and one with high contrast. What a state means is always said in words or signs as well."""

from __future__ import annotations

import os
from collections.abc import Mapping

from textual.theme import Theme

DARK = Theme(
    name="bullpen-dark",
    dark=True,
    primary="#8fb573",
    secondary="#6ea8c9",
    accent="#d9a05b",
    foreground="#d8d9d2",
    background="#191b1a",
    surface="#202322",
    panel="#2a2e2c",
    success="#8fb573",
    warning="#e0b35a",
    error="#e07a6a",
    variables={"added": "#20382a", "removed": "#452625", "faint": "#979c96"},
)

LIGHT = Theme(
    name="bullpen-light",
    dark=False,
    primary="#3f6f2a",
    secondary="#1f6485",
    accent="#8a5310",
    foreground="#222521",
    background="#faf9f5",
    surface="#f1f0ea",
    panel="#e5e4dc",
    success="#3f6f2a",
    warning="#7d5a08",
    error="#a8322a",
    variables={"added": "#d9edd4", "removed": "#f6d9d5", "faint": "#5e625c"},
)

CONTRAST = Theme(
    name="bullpen-contrast",
    dark=True,
    primary="#ffffff",
    secondary="#7fe0ff",
    accent="#ffd75f",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#1c1c1c",
    success="#7dff7d",
    warning="#ffd75f",
    error="#ff8080",
    variables={"added": "#00330f", "removed": "#4d0000", "faint": "#d0d0d0"},
)

ALL = {"dark": DARK, "light": LIGHT, "contrast": CONTRAST}


def chosen(name: str, env: Mapping[str, str] = os.environ) -> Theme:
    """The theme of that name. `auto` goes by `COLORFGBG`, where terminals that set it say what their background is."""
    if name == "auto":
        background = env.get("COLORFGBG", "").rpartition(";")[2]
        name = "light" if background in {"7", "15"} else "dark"
    return ALL[name]
