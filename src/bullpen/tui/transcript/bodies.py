"""What came of a call, in rows. Folded, only the first few rows are made at all, however long the whole is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from bullpen.tui.transcript import ansi, code, diffs
from bullpen.tui.transcript.diffs import Drawn
from bullpen.tui.transcript.flow import Run, strip, strips, wrap
from bullpen.tui.transcript.markdown import Markdown
from bullpen.tui.transcript.palette import Palette
from bullpen.tui.transcript.tools import Body, Difference, Listed, Output, Plain, Prose, Source

FOLDED_ROWS = 10
MAX_LINES = 2_000
"""More than anybody reads in a conversation; the rest is counted, and copied with the whole."""

MAX_LINE = 20_000
MAX_CHARACTERS = 100_000


def drawn(body: Body, width: int, palette: Palette, *, limit: int | None, split: bool) -> Drawn:
    """The rows of a body, at most `limit`, and how many lines more there are."""
    match body:
        case Plain(text):
            return lines(text, width, palette.faint, palette.text, limit=limit)
        case Output(text):
            return output(text, width, palette, limit=limit)
        case Source(text, path, first):
            return _source(text, path, first, width, palette, limit)
        case Difference(text, path):
            return diffs.drawn(text, path, width, palette, limit=limit, split=split)
        case Prose(text):
            return _prose(text, width, palette, limit)
        case Listed(rows):
            return _listed(rows, width, palette)
        case _:
            assert_never(body)


def lines(text: str, width: int, style: Style, fill: Style, *, limit: int | None) -> Drawn:
    """Text as it is."""
    text = text.rstrip("\n")
    shown, hidden = first_lines(text, limit)
    return _cut([row for line in shown for row in strips([(line, style)], width, fill)], limit, hidden)


def output(text: str, width: int, palette: Palette, *, limit: int | None, from_end: bool = False) -> Drawn:
    """What a program prints: the beginning of it, or while it runs the end."""
    text = text.rstrip("\n")
    shown, hidden = _last(text, limit or MAX_LINES) if from_end else first_lines(text, limit)
    rows = strips(_faint(ansi.runs("\n".join(shown), palette), palette), width, palette.text, at="anywhere")
    if from_end and limit is not None:
        return Drawn(rows[-limit:], hidden)
    return _cut(rows, limit, hidden)


def _faint(runs: Iterable[Run], palette: Palette) -> list[Run]:
    """What has no colour of its own stands back behind what was said."""
    return [(text, palette.faint if style == palette.text else style) for text, style in runs]


def _source(text: str, path: str, first: int, width: int, palette: Palette, limit: int | None) -> Drawn:
    shown, hidden = first_lines(text.rstrip("\n"), limit)
    numbers = len(str(first + len(shown))) if first else 0
    rows: list[Strip] = []
    coloured = code.coloured("\n".join(shown), code.by_path(path), palette, palette.text)
    for number, runs in enumerate(coloured, first):
        head = [Segment(f"{number:>{numbers}}  ", palette.faint)] if first else []
        rest = [Segment(" " * (numbers + 2), palette.text)] if first else []
        wrapped = wrap(runs or [("", palette.text)], width - (numbers + 2 if first else 0), at="anywhere")
        rows += [strip([*(rest if n else head), *row], width, palette.text) for n, row in enumerate(wrapped)]
    return _cut(rows, limit, hidden)


def _prose(text: str, width: int, palette: Palette, limit: int | None) -> Drawn:
    shown, hidden = first_lines(text, None if limit is None else limit * 3)
    return _cut(Markdown(width, palette, indent=0).strips("\n".join(shown)), limit, hidden)


def _listed(rows: Sequence[tuple[str, str]], width: int, palette: Palette) -> Drawn:
    signs = {"✓": palette.good, "→": palette.accent, "✗": palette.bad, "!": palette.warn, "?": palette.text}
    found: list[Strip] = []
    for sign, text in rows:
        style = palette.faint if sign in "✓• " else palette.text
        head = (f"{sign} ", signs.get(sign, palette.faint))
        found += strips([(text, style)], width, palette.text, first=[head], rest=[("  ", palette.text)])
    return Drawn(found)


def first_lines(text: str, limit: int | None = None) -> tuple[list[str], int]:
    """The first lines of a text, none of them endless, and how many there are behind them."""
    most = limit or MAX_LINES
    count = text.count("\n") + 1
    shown = text[: most * 200 if limit else MAX_CHARACTERS].split("\n")[:most]
    longest = limit * 200 if limit else MAX_LINE
    return [line if len(line) < longest else f"{line[:longest]}…" for line in shown], count - len(shown)


def _last(text: str, most: int) -> tuple[list[str], int]:
    tail = text[-most * 400 :]
    shown = tail.split("\n")[-most:]
    return shown, max(text.count("\n") + 1 - len(shown), 0)


def _cut(rows: list[Strip], limit: int | None, hidden: int) -> Drawn:
    if limit is None or len(rows) <= limit:
        return Drawn(rows, hidden)
    return Drawn(rows[:limit], hidden + 1)
