"""What in a text is nearest to one that is not there, shown so that the difference can be seen."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

MAX_SHOWN_LINES = 12
MAX_SHOWN_CHARACTERS = 160
MAX_PLACES = 8
"""How often one line of the wanted text counts: a text of the same line over and over would take its square."""

_WORD = re.compile(r"\w+")


def describe(text: str, old: str) -> str:
    """A place in which at least half of the lines, or of one line's words, are the same; "" where there is none."""
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    start = _best_window(lines, wanted)
    if start is None:
        start, wanted = _best_line(lines, wanted), wanted[:1]
    if start is None:
        return ""
    end = min(start + len(wanted), len(lines))
    first, last = max(start - 1, 0), min(end + 1, len(lines))
    shown = [
        f"{'≠' if start <= n < end and not _is_wanted(lines[n], wanted, n - start) else ' '}{n + 1:6}|{_visible(lines[n])}"
        for n in range(first, last)
    ]
    if len(shown) > MAX_SHOWN_LINES:
        shown = [*shown[:MAX_SHOWN_LINES], "        …"]
    place = f"line {start + 1}" if end - start == 1 else f"lines {start + 1} to {end}"
    return (
        f"The nearest is at {place}; lines marked ≠ differ from old_string (at either end of a line · is a blank "
        f"and → a tab):\n" + "\n".join(shown)
    )


def _is_wanted(line: str, wanted: list[str], index: int) -> bool:
    return index < len(wanted) and line == wanted[index]


def _best_window(lines: list[str], wanted: list[str]) -> int | None:
    """Every line that is there votes for where the text would begin."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for index, line in enumerate(wanted):
        key = line.strip()
        if key and len(places[key]) < MAX_PLACES:
            places[key].append(index)
    votes: Counter[int] = Counter()
    for number, line in enumerate(lines):
        for index in places.get(line.strip(), ()):
            if number >= index:
                votes[number - index] += 1
    if not votes:
        return None
    start, count = max(votes.items(), key=lambda vote: (vote[1], -vote[0]))
    return start if count * 2 >= sum(bool(line.strip()) for line in wanted) else None


def _best_line(lines: list[str], wanted: list[str]) -> int | None:
    """The line that shares most words with the first line that is wanted."""
    words = set(_WORD.findall(next((line for line in wanted if line.strip()), "")[:1000]))
    if not words:
        return None
    shared = [len(words.intersection(_WORD.findall(line[:1000]))) for line in lines]
    most = max(shared)
    return shared.index(most) if most * 2 >= len(words) else None


def _visible(line: str) -> str:
    line = line.rstrip("\r")
    shown = line[:MAX_SHOWN_CHARACTERS]
    body = shown.strip(" \t")
    lead, tail = shown[: len(shown) - len(shown.lstrip(" \t"))], ""
    if body:
        tail = shown[len(lead) + len(body) :]
    return _marked(lead) + body + _marked(tail) + ("…" if len(line) > MAX_SHOWN_CHARACTERS else "")


def _marked(blank: str) -> str:
    return blank.replace(" ", "·").replace("\t", "→")
