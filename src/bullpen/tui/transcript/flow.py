"""Styled text into rows of a width. Every strip of the conversation is made here, and what goes in is made inert first (X-20)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from bullpen.present.inert import inert

Run = tuple[str, Style]
Row = list[Segment]
Span = tuple[int, int]
Break = Literal["word", "anywhere", "cut"]


def wrap(runs: Iterable[Run], width: int, *, at: Break = "word") -> list[Row]:
    """Rows of at most `width` columns. `at` says where a long line may be broken; `cut` leaves out what is too long."""
    rows: list[Row] = []
    for line in _lines(runs):
        text = "".join(run[0] for run in line)
        spans = _spans(text, max(width, 1), at)
        if at == "cut" and spans[0][1] < len(text):
            rows += ([*row, Segment("…", line[-1][1])] for row in _sliced(line, [_shorter(text, width)]))
        else:
            rows += _sliced(line, spans)
    return rows


def strip(row: Sequence[Segment], width: int, fill: Style) -> Strip:
    """The row as a strip of exactly that width."""
    used = sum(cell_len(segment.text) for segment in row)
    if used < width:
        row = [*row, Segment(" " * (width - used), fill)]
    return Strip(row, max(used, width))


def strips(
    runs: Iterable[Run],
    width: int,
    fill: Style,
    *,
    first: Sequence[Run] = (),
    rest: Sequence[Run] = (),
    at: Break = "word",
) -> list[Strip]:
    """Wrapped rows with `first` before the first one and `rest` before the others, which must be as wide."""
    indent = sum(cell_len(text) for text, _ in first)
    rows = wrap(runs, width - indent, at=at)
    heads = [[Segment(*run) for run in head] for head in (first, rest or first)]
    return [strip([*heads[number > 0], *row], width, fill) for number, row in enumerate(rows)]


@lru_cache(maxsize=64)
def blank(width: int, fill: Style) -> Strip:
    """An empty row, always the same one."""
    return Strip([Segment(" " * width, fill)], width)


def overlaid(runs: Sequence[Run], spans: Sequence[Span], style: Style) -> list[Run]:
    """The runs with some parts in another style."""
    if not spans:
        return list(runs)
    bounds = sorted({bound for span in spans for bound in span})
    found: list[Run] = []
    at = 0
    for text, plain in runs:
        cuts = [0, *(bound - at for bound in bounds if at < bound < at + len(text)), len(text)]
        for start, end in pairwise(cuts):
            is_marked = any(first <= at + start < last for first, last in spans)
            found.append((text[start:end], style if is_marked else plain))
        at += len(text)
    return found


def marked(strip: Strip, spans: Sequence[Span], style: Style) -> Strip:
    """The strip with some of its characters in another style."""
    runs = [(segment.text, segment.style or Style.null()) for segment in strip]
    return Strip([Segment(*run) for run in overlaid(runs, spans, style)], strip.cell_length)


def _lines(runs: Iterable[Run]) -> list[list[Run]]:
    """The runs of each line; an empty line has an empty run."""
    lines: list[list[Run]] = [[]]
    style = Style.null()
    for text, style in runs:
        first, *others = inert(text).split("\n")
        lines[-1].append((first, style))
        lines += [[(other, style)] for other in others]
    return [line or [("", style)] for line in lines]


def _spans(text: str, width: int, at: Break) -> list[Span]:
    """Where each row begins and ends."""
    is_narrow = text.isascii()
    spans: list[Span] = []
    start = 0
    while True:
        end = _fitting(text, start, width, is_narrow)
        if end >= len(text) or at == "cut":
            return [*spans, (start, end)]
        following = end
        if at == "word":
            space = text.rfind(" ", start, end + 1)
            # A row of nothing but indentation would be no gain.
            if space > start and text[start:space].strip():
                end, following = space, space + 1
        spans.append((start, end))
        start = following


def _fitting(text: str, start: int, width: int, is_narrow: bool) -> int:
    """How far a row reaches; at least one character, so that it ends."""
    if is_narrow:
        return min(start + width, len(text))
    used, end = 0, start
    while end < len(text):
        used += get_character_cell_size(text[end])
        if used > width and end > start:
            break
        end += 1
    return end


def _shorter(text: str, width: int) -> tuple[int, int]:
    """Room for a mark behind it."""
    return 0, _fitting(text, 0, width - 1, text.isascii()) if width > 1 else 0


def _sliced(line: Sequence[Run], spans: Iterable[Span]) -> Iterator[Row]:
    """The pieces of a line, in one pass over its runs: both may be very many."""
    number, at = 0, 0
    for start, end in spans:
        row: Row = []
        while number < len(line):
            text, style = line[number]
            if piece := text[max(start - at, 0) : max(end - at, 0)]:
                row.append(Segment(piece, style))
            if at + len(text) > end:
                break
            at += len(text)
            number += 1
        yield row
