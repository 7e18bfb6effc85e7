"""A diff in colour, one column or two. Signs say the same as the colours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from rich.text import Text

from bullpen.present.inert import cut


def unified(lines: Sequence[str], colours: Mapping[str, str]) -> Text:
    """As it stands, line by line."""
    return Text("\n").join(Text(line, _style(line, colours)) for line in lines)


def split(lines: Sequence[str], width: int, colours: Mapping[str, str]) -> Text:
    """What was on the left, what will be on the right."""
    half = max((width - 3) // 2, 10)
    rows: list[Text] = []
    for left, right in _pairs(lines):
        old = Text(cut(left, half), _style(left, colours))
        old.pad_right(max(half - old.cell_len, 0))
        rows.append(Text.assemble(old, " │ ", Text(cut(right, half), _style(right, colours))))
    return Text("\n").join(rows)


def _pairs(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    removed: list[str] = []
    added: list[str] = []
    for line in lines:
        if line.startswith("-"):
            removed.append(line)
        elif line.startswith("+"):
            added.append(line)
        else:
            yield from zip_longest(removed, added, fillvalue="")
            removed, added = [], []
            yield line, "" if line.startswith("@@") else line
    yield from zip_longest(removed, added, fillvalue="")


def _style(line: str, colours: Mapping[str, str]) -> str:
    match line[:1]:
        case "+":
            return f"on {colours['added']}"
        case "-":
            return f"on {colours['removed']}"
        case "@":
            return colours["secondary"]
        case _:
            return ""
