"""What changed between two versions of a text, for people to read."""

from __future__ import annotations

import difflib
from typing import NamedTuple

MAX_LINES = 4000
"""Past this many differing lines the comparison itself would take seconds; then all of them are shown as
replaced."""

CONTEXT_LINES = 3


class Diff(NamedTuple):
    text: str
    additions: int
    removals: int


def unified(before: str, after: str, name: str) -> Diff:
    """A unified diff with the number of added and removed lines."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    start, end = _common_ends(old, new)
    if max(len(old), len(new)) - start - end > MAX_LINES:
        lines = _all_replaced(old, new, start, end, name)
    else:
        lines = list(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", n=CONTEXT_LINES))
    body = lines[2:]
    return Diff(
        text="".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        ),
        additions=sum(line.startswith("+") for line in body),
        removals=sum(line.startswith("-") for line in body),
    )


def _common_ends(old: list[str], new: list[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning and at the end."""
    limit = min(len(old), len(new))
    start = next((i for i in range(limit) if old[i] != new[i]), limit)
    end = next((i for i in range(limit - start) if old[-1 - i] != new[-1 - i]), limit - start)
    return start, end


def _all_replaced(old: list[str], new: list[str], start: int, end: int, name: str) -> list[str]:
    gone, come = old[start : len(old) - end], new[start : len(new) - end]
    header = f"@@ -{start + 1},{len(gone)} +{start + 1},{len(come)} @@\n"
    return [
        f"--- a/{name}\n",
        f"+++ b/{name}\n",
        header,
        *(f"-{line}" for line in gone),
        *(f"+{line}" for line in come),
    ]
