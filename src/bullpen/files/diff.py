"""What changed between two versions of a text, for people to read."""

from __future__ import annotations

import bisect
import difflib
from typing import NamedTuple

MAX_LINES = 4000
"""Past this many differing lines the comparison itself would take seconds; then all of them are shown as
replaced."""

MAX_SHOWN_LINES = 100_000
"""Past this nobody reads a diff; only the counts are told."""

CONTEXT_LINES = 3


class Diff(NamedTuple):
    text: str
    additions: int
    removals: int


def unified(before: str, after: str, name: str) -> Diff:
    """A unified diff with the number of added and removed lines. What is the same at both ends costs no comparison."""
    if before == after:
        return Diff("", 0, 0)
    start, end = _same_ends(before, after)
    first = before.count("\n", 0, start)
    before, after = before[start : len(before) - end], after[start : len(after) - end]
    if before.count("\n") + after.count("\n") > MAX_SHOWN_LINES:
        return _untold(before, after, name)
    old, new = _lines(before), _lines(after)
    lines = [f"--- a/{name}\n", f"+++ b/{name}\n"]
    added = removed = 0
    for group in _groups(old, new):
        lines.append(_heading(group, first))
        for kind, i1, i2, j1, j2 in group:
            if kind == "equal":
                lines += [f" {line}" for line in old[i1:i2]]
                continue
            lines += [f"-{line}" for line in old[i1:i2]]
            lines += [f"+{line}" for line in new[j1:j2]]
            added, removed = added + j2 - j1, removed + i2 - i1
    whole = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return Diff("".join(whole), added, removed)


_Step = tuple[str, int, int, int, int]


def _lines(text: str) -> list[str]:
    """Only a newline ends a line: others that Python knows may stand within one."""
    *whole, rest = text.split("\n")
    lines = [f"{line}\n" for line in whole]
    return [*lines, rest] if rest else lines


def _same_ends(before: str, after: str) -> tuple[int, int]:
    """How many characters are the same at the beginning and at the end, in whole lines and less those shown around a change."""
    limit = min(len(before), len(after))
    start = bisect.bisect_left(range(limit), True, key=lambda n: before[: n + 1] != after[: n + 1])
    for _ in range(CONTEXT_LINES + 1):
        start = before.rfind("\n", 0, start)
        if start < 0:
            break
    start += 1
    room = limit - start

    def differs(n: int) -> bool:
        return before[len(before) - n - 1 :] != after[len(after) - n - 1 :]

    end = bisect.bisect_left(range(room), True, key=differs)
    at = len(before) - end
    for _ in range(CONTEXT_LINES + 1):
        at = before.find("\n", at) + 1
        if at == 0:
            return start, 0
    return start, len(before) - at


def _groups(old: list[str], new: list[str]) -> list[list[_Step]]:
    """Steps that turn one into the other, those near each other together."""
    if max(len(old), len(new)) > MAX_LINES:
        return [_all_replaced(old, new)]
    matcher = difflib.SequenceMatcher(None, old, new)
    return [list(group) for group in matcher.get_grouped_opcodes(CONTEXT_LINES)]


def _all_replaced(old: list[str], new: list[str]) -> list[_Step]:
    limit = min(len(old), len(new))
    start = next((i for i in range(limit) if old[i] != new[i]), limit)
    end = next((i for i in range(limit - start) if old[-1 - i] != new[-1 - i]), limit - start)
    steps: list[_Step] = [
        ("equal", 0, start, 0, start),
        ("replace", start, len(old) - end, start, len(new) - end),
        ("equal", len(old) - end, len(old), len(new) - end, len(new)),
    ]
    return [step for step in steps if step[1] < step[2] or step[3] < step[4]]


def _heading(group: list[_Step], first: int) -> str:
    _, i1, _, j1, _ = group[0]
    _, _, i2, _, j2 = group[-1]
    return f"@@ -{_range(i1 + first, i2 - i1)} +{_range(j1 + first, j2 - j1)} @@\n"


def _range(start: int, length: int) -> str:
    """As diff counts: from 1, and an empty range stands at the line before."""
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _untold(before: str, after: str, name: str) -> Diff:
    gone, come = (text.count("\n") + (not text.endswith("\n")) for text in (before, after))
    return Diff(f"--- a/{name}\n+++ b/{name}\n\\ {gone} lines became {come}: too many to show\n", come, gone)
