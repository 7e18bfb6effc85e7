"""Diffs in rows: numbers, a sign, colours, and within a changed line the words that differ. One column, or the old beside the new."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from bullpen.tui.transcript import code
from bullpen.tui.transcript.flow import Run, Span, overlaid, strip, wrap
from bullpen.tui.transcript.palette import Palette

SPLIT_FROM = 121
"""From this width on there is room for two columns."""

MAX_LINES = 2_000
"""Nobody reads a longer one here; the rest is counted."""

MAX_LINE = 2_000
MAX_MARKED = 300
"""Longer lines are not compared word by word, nor are more pairs than this."""

_HEADING = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_WORDS = re.compile(r"\w+|\s+|.")


class Line(NamedTuple):
    """A line of a diff. `sign` is one of `+`, `-`, blank, or `@` for a heading; a number that is 0 is not shown."""

    sign: str
    old: int
    new: int
    text: str


class Drawn(NamedTuple):
    """What is shown, and how many lines are not."""

    strips: list[Strip]
    hidden: int = 0


def drawn(
    diff: str,
    path: str,
    width: int,
    palette: Palette,
    *,
    limit: int | None = None,
    split: bool = False,
    whole: bool = False,
) -> Drawn:
    """The rows of a unified diff, at most `limit` of them; `whole` leaves nothing out, however long it is."""
    lines = list(parsed(diff, len(diff) if whole else MAX_LINE))
    most = len(lines) if whole else min(limit or MAX_LINES, MAX_LINES)
    shown = lines[:most]
    colours = _coloured(shown, path, palette)
    marks = _marks(shown)
    runs = [
        overlaid(colours[n], marks.get(n, ()), _word_style(line, palette)) for n, line in enumerate(shown)
    ]
    numbers = max((len(str(max(line.old, line.new))) for line in shown), default=1)
    rows = (_side_by_side if split else _unified)(shown, runs, numbers, width, palette)
    if limit is not None and len(rows) > limit:
        rows = rows[:limit]
    return Drawn(rows, len(lines) - len(shown))


def parsed(diff: str, longest: int = MAX_LINE) -> Iterator[Line]:
    """The lines of a unified diff with their numbers; of each so many characters."""
    old = new = 0
    for line in diff.rstrip("\n").split("\n"):
        text = line if len(line) <= longest else f"{line[:longest]}…"
        if found := _HEADING.match(text):
            old, new = int(found[1]), int(found[2])
            yield Line("@", 0, 0, text)
        elif text.startswith(("--- ", "+++ ")) and not old and not new:
            continue
        elif text.startswith("+"):
            yield Line("+", 0, new, text[1:])
            new += 1
        elif text.startswith("-"):
            yield Line("-", old, 0, text[1:])
            old += 1
        elif text.startswith("\\") or not old + new:
            yield Line("@", 0, 0, text)
        else:
            yield Line(" ", old, new, text[1:])
            old, new = old + 1, new + 1


def _coloured(lines: Sequence[Line], path: str, palette: Palette) -> list[list[Run]]:
    text = "\n".join(line.text for line in lines)
    found = code.coloured(text, code.by_path(path), palette, Style.null())
    # A lexer may not lose lines; should one do so, the text itself is what counts.
    if len(found) != len(lines):
        found = [[(line.text, Style.null())] for line in lines]
    return [
        [(piece, _line_style(line, palette) + style) for piece, style in runs]
        for line, runs in zip(lines, found, strict=True)
    ]


def _line_style(line: Line, palette: Palette) -> Style:
    return {"+": palette.added, "-": palette.removed, "@": palette.faint}.get(line.sign, palette.text)


def _word_style(line: Line, palette: Palette) -> Style:
    return palette.added_word if line.sign == "+" else palette.removed_word


def _marks(lines: Sequence[Line]) -> dict[int, list[Span]]:
    """Which parts of changed lines differ, where a removed and an added line are much the same."""
    marks: dict[int, list[Span]] = {}
    number = 0
    while number < len(lines) and len(marks) < MAX_MARKED:
        gone = number
        while gone < len(lines) and lines[gone].sign == "-":
            gone += 1
        come = gone
        while come < len(lines) and lines[come].sign == "+":
            come += 1
        for pair in range(min(gone - number, come - gone)):
            before, after = number + pair, gone + pair
            if spans := _differing(lines[before].text, lines[after].text):
                marks[before], marks[after] = spans
        number = max(come, number + 1)
    return marks


def _differing(before: str, after: str) -> tuple[list[Span], list[Span]] | None:
    if max(len(before), len(after)) > MAX_MARKED:
        return None
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < 0.5:
        return None
    steps = [step for step in matcher.get_opcodes() if step[0] != "equal"]
    return (
        [_span(old, start, end) for _, start, end, _, _ in steps if start < end],
        [_span(new, start, end) for _, _, _, start, end in steps if start < end],
    )


def _span(words: Sequence[str], start: int, end: int) -> Span:
    at = sum(map(len, words[:start]))
    return at, at + sum(map(len, words[start:end]))


def _unified(
    lines: Sequence[Line], runs: Sequence[list[Run]], numbers: int, width: int, palette: Palette
) -> list[Strip]:
    rows: list[Strip] = []
    for line, text in zip(lines, runs, strict=True):
        if line.sign == "@":
            rows.append(_heading(line, width, palette))
            continue
        fill = _line_style(line, palette)
        shown = f" {line.old or '':>{numbers}} {line.new or '':>{numbers}} "
        rows += _row(shown, line.sign, text, width, fill, palette)
    return rows


def _side_by_side(
    lines: Sequence[Line], runs: Sequence[list[Run]], numbers: int, width: int, palette: Palette
) -> list[Strip]:
    left = (width - 1) // 2
    right = width - 1 - left
    bar = Strip([Segment("│", palette.faint)], 1)
    rows: list[Strip] = []
    for pair in _pairs(lines):
        old, new = pair
        if old is not None and lines[old].sign == "@":
            rows.append(_heading(lines[old], width, palette))
            continue
        sides: list[list[Strip]] = []
        for at, wide, is_old in ((old, left, True), (new, right, False)):
            if at is None:
                sides.append([])
                continue
            line = lines[at]
            number = line.old if is_old else line.new
            sides.append(
                _row(
                    f" {number or '':>{numbers}} ",
                    line.sign,
                    runs[at],
                    wide,
                    _line_style(line, palette),
                    palette,
                )
            )
        for row in range(max(map(len, sides))):
            cells = [
                side[row] if row < len(side) else strip([], wide, palette.panel)
                for side, wide in zip(sides, (left, right), strict=True)
            ]
            rows.append(Strip.join([cells[0], bar, cells[1]]))
    return rows


def _pairs(lines: Sequence[Line]) -> Iterator[tuple[int | None, int | None]]:
    """What stands beside what, by position."""
    number = 0
    while number < len(lines):
        if lines[number].sign not in "+-":
            yield number, number
            number += 1
            continue
        gone = number
        while gone < len(lines) and lines[gone].sign == "-":
            gone += 1
        come = gone
        while come < len(lines) and lines[come].sign == "+":
            come += 1
        for pair in range(max(gone - number, come - gone)):
            yield (
                number + pair if number + pair < gone else None,
                gone + pair if gone + pair < come else None,
            )
        number = come


def _row(numbers: str, sign: str, text: list[Run], width: int, fill: Style, palette: Palette) -> list[Strip]:
    head = [Segment(numbers, fill + Style(color=palette.faint.color)), Segment(f"{sign} ", fill)]
    room = width - len(numbers) - 2
    rows = wrap(text, max(room, 4), at="anywhere") or [[]]
    rest = [Segment(" " * (len(numbers) + 2), fill)]
    return [strip([*(head if n == 0 else rest), *row], width, fill) for n, row in enumerate(rows)]


def _heading(line: Line, width: int, palette: Palette) -> Strip:
    return strip(wrap([(f" {line.text}", palette.faint)], width, at="cut")[0], width, palette.text)
