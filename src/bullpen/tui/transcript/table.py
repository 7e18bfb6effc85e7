"""Tables in columns that share the width there is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from bullpen.tui.transcript.flow import Run, strip, wrap
from bullpen.tui.transcript.palette import Palette

NARROWEST = 5
MAX_CELLS = 3_000
"""A table of more is shown as it was written."""

GAP = " │ "


def table(rows: Sequence[Sequence[Sequence[Run]]], width: int, palette: Palette) -> list[Strip] | None:
    """The strips of a table, its first row being the heading; None when it has no room here."""
    count = max((len(row) for row in rows), default=0)
    room = width - len(GAP) * (count - 1)
    if not count or room < count * NARROWEST or len(rows) * count > MAX_CELLS:
        return None
    wanted = [max((_width(row[n]) for row in rows if n < len(row)), default=1) for n in range(count)]
    widths = _shared(wanted, room)
    drawn: list[Strip] = []
    for number, row in enumerate(rows):
        cells = [wrap(row[n], widths[n]) if n < len(row) else [] for n in range(count)]
        drawn += [_joined(line, widths, width, palette) for line in zip_longest(*cells, fillvalue=())]
        if number == 0:
            rule = "─┼─".join("─" * each for each in widths)
            drawn.append(strip([Segment(rule, palette.faint)], width, palette.text))
    return drawn


def _width(runs: Sequence[Run]) -> int:
    return max(sum(cell_len(text) for text, _ in runs), 1)


def _shared(wanted: Sequence[int], room: int) -> list[int]:
    """Narrow columns get what they want; the others share the rest evenly."""
    widths = list(wanted)
    open_columns = sorted(range(len(widths)), key=widths.__getitem__)
    for position, column in enumerate(open_columns):
        share = room // (len(open_columns) - position)
        widths[column] = min(widths[column], max(share, NARROWEST))
        room -= widths[column]
    return widths


def _joined(cells: Sequence[Sequence[Segment]], widths: Sequence[int], width: int, palette: Palette) -> Strip:
    row: list[Segment] = []
    for number, (cell, wide) in enumerate(zip(cells, widths, strict=True)):
        if number:
            row.append(Segment(GAP, palette.faint))
        row += strip(cell, wide, palette.text)
    return strip(row, width, palette.text)
