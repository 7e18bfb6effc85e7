"""Source code in colours. What is too long or too odd for a lexer is shown as it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_by_name, find_lexer_class_for_filename
from pygments.token import Comment, Error, Keyword, Name, Number, String
from pygments.util import ClassNotFound
from rich.style import Style

from bullpen.present.inert import inert
from bullpen.tui.transcript.flow import Run
from bullpen.tui.transcript.palette import Palette

MAX_CHARACTERS = 60_000
MAX_LINE = 2_000
"""Lexers are regular expressions, and some of them take their time with one long line."""

MAX_S = 0.08
"""So long a lexer may take; the rest of the text stays plain."""

_KINDS = (
    (Comment, "comment"),
    (Keyword, "keyword"),
    (Name.Function, "name"),
    (Name.Class, "name"),
    (Name.Tag, "keyword"),
    (Name.Builtin, "keyword"),
    (Name.Decorator, "number"),
    (String, "string"),
    (Number, "number"),
    (Error, "error"),
)


def by_name(language: str) -> Lexer | None:
    """The lexer of a language, as a fence names it."""
    try:
        return find_lexer_class_by_name(language)() if language else None
    except ClassNotFound:
        return None


def by_path(path: str) -> Lexer | None:
    """The lexer of a file."""
    found = find_lexer_class_for_filename(path.rpartition("/")[2]) if path else None
    return found() if found is not None else None


def coloured(text: str, lexer: Lexer | None, palette: Palette, base: Style) -> list[list[Run]]:
    """The lines of a text, each in runs."""
    text = inert(text)
    lines: list[list[Run]] = [[]]
    for piece, style in _pieces(text, lexer, palette, base):
        first, *others = piece.split("\n")
        if first:
            lines[-1].append((first, style))
        lines += [[(other, style)] if other else [] for other in others]
    return lines


def _pieces(text: str, lexer: Lexer | None, palette: Palette, base: Style) -> Iterator[Run]:
    if lexer is None or len(text) > MAX_CHARACTERS or any(len(line) > MAX_LINE for line in text.split("\n")):
        yield text, base
        return
    ends = time.monotonic() + MAX_S
    done = 0
    for start, kind, value in lexer.get_tokens_unprocessed(text):
        yield value, _style(kind, palette, base)
        done = start + len(value)
        if time.monotonic() > ends:
            break
    yield text[done:], base


def _style(kind: object, palette: Palette, base: Style) -> Style:
    name = _name(kind)
    return base + palette.syntax[name] if name else base


@lru_cache(maxsize=256)
def _name(kind: object) -> str:
    return next((name for known, name in _KINDS if kind in known), "")
