"""The styles of a conversation, made from the theme once and then only looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.color import Color
from rich.style import Style


@dataclass(frozen=True, slots=True)
class Palette:
    """Every style stands on the background of the widget, so that a strip needs no other paint below it."""

    text: Style
    faint: Style
    strong: Style
    heading: Style
    link: Style
    code: Style
    panel: Style
    panel_faint: Style
    own: Style
    """What I said myself, and what belongs to it."""
    other: Style
    """What somebody else said."""
    good: Style
    bad: Style
    warn: Style
    accent: Style
    added: Style
    added_word: Style
    removed: Style
    removed_word: Style
    match: Style
    found: Style
    """The match one is at."""
    ansi: tuple[Style, ...]
    """The eight colours of program output, in this theme's own."""
    syntax: Mapping[str, Style]


def palette(base: Style, colours: Mapping[str, str]) -> Palette:
    """The palette of a theme, on the style of a widget. A theme that is none of ours has no colours for some of it."""
    plain = {"faint": colours["foreground"], "added": colours["panel"], "removed": colours["panel"]}
    colours = {**plain, **colours}

    def ink(name: str, *, bold: bool = False, italic: bool = False, on: str = "") -> Style:
        return base + Style(
            color=Color.parse(colours[name]),
            bgcolor=Color.parse(colours[on]) if on else None,
            bold=bold or None,
            italic=italic or None,
        )

    panel = base + Style(bgcolor=Color.parse(colours["panel"]))
    faint = ink("faint")
    return Palette(
        text=base,
        faint=faint,
        strong=base + Style(bold=True),
        heading=ink("primary", bold=True),
        link=ink("secondary"),
        code=ink("accent"),
        panel=panel,
        panel_faint=ink("faint", on="panel"),
        own=ink("primary"),
        other=ink("secondary"),
        good=ink("success"),
        bad=ink("error"),
        warn=ink("warning"),
        accent=ink("accent"),
        added=ink("foreground", on="added"),
        added_word=ink("success", bold=True, on="added"),
        removed=ink("foreground", on="removed"),
        removed_word=ink("error", bold=True, on="removed"),
        match=ink("background", on="secondary"),
        found=ink("background", bold=True, on="accent"),
        ansi=(
            faint,
            ink("error"),
            ink("success"),
            ink("warning"),
            ink("secondary"),
            ink("accent"),
            ink("primary"),
            base,
        ),
        syntax={
            "comment": Style(color=Color.parse(colours["faint"]), italic=True),
            "keyword": Style(color=Color.parse(colours["secondary"])),
            "string": Style(color=Color.parse(colours["success"])),
            "number": Style(color=Color.parse(colours["accent"])),
            "name": Style(color=Color.parse(colours["primary"]), bold=True),
            "error": Style(color=Color.parse(colours["error"])),
        },
    )


UNPAINTED = palette(
    Style.null(),
    dict.fromkeys(
        (
            "primary",
            "secondary",
            "accent",
            "foreground",
            "background",
            "panel",
            "success",
            "warning",
            "error",
            "added",
            "removed",
            "faint",
        ),
        "default",
    ),
)
"""Before there is a theme."""
