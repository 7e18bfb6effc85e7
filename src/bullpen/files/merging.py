"""Taking lines back out of a text that somebody else has changed since, and choosing among the changes.

All of this works on bytes: line ends, byte order marks and encodings come through as they are.
"""

from __future__ import annotations

import difflib
import io
from collections.abc import Collection
from typing import NamedTuple

MAX_LINES = 4000
"""Past this many differing lines a comparison takes seconds."""

CONTEXT_LINES = 3


class Span(NamedTuple):
    """Lines `start` to `end` of one text are `lines` in the other."""

    start: int
    end: int
    lines: tuple[bytes, ...]


class Hunk(NamedTuple):
    """A change, with what stands around it, for people to read and to choose; `spans` are of the text before."""

    text: str
    additions: int
    removals: int
    spans: tuple[Span, ...]


def is_text(content: bytes) -> bool:
    return b"\0" not in content


def merged(base: bytes, mine: bytes, theirs: bytes) -> bytes | None:
    """What becomes of `theirs` when the step from `base` to `mine` is made in it too; None where both changed the same lines
    differently, or such that stand side by side."""
    if not (is_text(base) and is_text(mine) and is_text(theirs)):
        return None
    lines = _lines(base)
    ours, others = _spans(lines, _lines(mine)), _spans(lines, _lines(theirs))
    if ours is None or others is None:
        return None
    if any(a != b and a.start <= b.end and b.start <= a.end for a in ours for b in others):
        return None
    return b"".join(_applied(lines, sorted({*ours, *others})))


def hunks(before: bytes, after: bytes) -> list[Hunk] | None:
    """The changes from one text to the other, in order; None for what is no text, or differs too much to be compared."""
    if not (is_text(before) and is_text(after)):
        return None
    old = _lines(before)
    spans = _spans(old, _lines(after))
    return None if spans is None else [_hunk(old, group, spans) for group in _groups(spans)]


def with_hunks(before: bytes, found: list[Hunk], chosen: Collection[int]) -> bytes:
    """The text with only the chosen changes made; they are numbered from 1."""
    spans = [span for number, hunk in enumerate(found, 1) if number in chosen for span in hunk.spans]
    return b"".join(_applied(_lines(before), spans))


def _lines(content: bytes) -> list[bytes]:
    """Split after line feeds alone; joined they are the content again."""
    return io.BytesIO(content).readlines()


def _spans(old: list[bytes], new: list[bytes]) -> list[Span] | None:
    """Where two texts differ, in order and never touching."""
    limit = min(len(old), len(new))
    start = next((i for i in range(limit) if old[i] != new[i]), limit)
    end = next((i for i in range(limit - start) if old[-1 - i] != new[-1 - i]), limit - start)
    ours, theirs = old[start : len(old) - end], new[start : len(new) - end]
    if max(len(ours), len(theirs)) > MAX_LINES:
        return None
    matcher = difflib.SequenceMatcher(None, ours, theirs)
    return [
        Span(start + i1, start + i2, tuple(theirs[j1:j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _applied(lines: list[bytes], spans: list[Span]) -> list[bytes]:
    result: list[bytes] = []
    at = 0
    for span in spans:
        result += lines[at : span.start]
        result += span.lines
        at = span.end
    return result + lines[at:]


def _groups(spans: list[Span]) -> list[list[Span]]:
    """Changes whose surroundings touch are read as one."""
    groups: list[list[Span]] = []
    for span in spans:
        if groups and span.start - groups[-1][-1].end <= 2 * CONTEXT_LINES:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


def _hunk(old: list[bytes], group: list[Span], spans: list[Span]) -> Hunk:
    first, last = group[0], group[-1]
    start, end = max(0, first.start - CONTEXT_LINES), min(len(old), last.end + CONTEXT_LINES)
    shift = sum(len(s.lines) - (s.end - s.start) for s in spans if s.start < first.start)
    grown = sum(len(s.lines) - (s.end - s.start) for s in group)
    told = [f"@@ -{_range(start, end - start)} +{_range(start + shift, end - start + grown)} @@\n"]
    at = start
    for span in group:
        told += [_shown(" ", line) for line in old[at : span.start]]
        told += [_shown("-", line) for line in old[span.start : span.end]]
        told += [_shown("+", line) for line in span.lines]
        at = span.end
    told += [_shown(" ", line) for line in old[at:end]]
    return Hunk(
        text="".join(told),
        additions=sum(len(s.lines) for s in group),
        removals=sum(s.end - s.start for s in group),
        spans=tuple(group),
    )


def _range(start: int, count: int) -> str:
    first = start + 1 if count else start
    return str(first) if count == 1 else f"{first},{count}"


def _shown(mark: str, line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return f"{mark}{text}" if text.endswith("\n") else f"{mark}{text}\n\\ No newline at end of file\n"
