"""Finds the text that a model meant to replace, or says what was nearest to it.

An exact match always wins. Only where there is none, slips that models make are looked through: a text that was escaped
once too often, line numbers copied along, typographic quotes, whitespace. What is found that way must be there once,
unless all are to be replaced, and nothing outside of it is touched. Everything here takes time in step with the size of
the text, and looks no further than its limits; call it in a thread.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from bullpen.errors import ToolFailed
from bullpen.files import indentation, nearest
from bullpen.files.texts import Span

MAX_TOLERANT_CHARACTERS = 2_000_000
MAX_TOLERANT_LINES = 50_000
"""Past these only exact matches are looked for: a list of all lines would cost more than it helps."""

MAX_LINES_NAMED = 10

MAX_REPLACED = 100_000
"""A file in which one text stands more often is not one that a model has read."""


class Found(NamedTuple):
    spans: tuple[Span, ...]
    note: str = ""
    """What had to be overlooked, in words for the model."""


def find(text: str, old: str, new: str, *, replace_all: bool = False) -> Found:
    """Where the old text stands, and what is to stand there. Raises `ToolFailed` with the reason and the next step."""
    if not old:
        raise ToolFailed("old_string is empty; give the text to replace")
    count = text.count(old)
    if count:
        _check_count(text, count, _occurrences(text, old), replace_all)
        return Found(tuple(Span(at, at + len(old), new) for at in _occurrences(text, old)))
    is_small = len(text) <= MAX_TOLERANT_CHARACTERS and text.count("\n") <= MAX_TOLERANT_LINES
    if not is_small or len(old) > len(text) * 2 + 1000:
        raise ToolFailed(_missing("" if is_small else _TOO_LARGE))
    for found in _tolerant(text, old, new):
        _check_count(text, len(found.spans), (span.start for span in found.spans), replace_all)
        return found
    raise ToolFailed(_missing(nearest.describe(text, old)))


_TOO_LARGE = (
    "The file is too large to look for something like it: view the place, and copy the text from there."
)


def _missing(hint: str) -> str:
    first = "old_string is not in the file; nothing was changed."
    return f"{first} {hint or 'View the file again, and copy the text exactly, without the line numbers.'}"


def _check_count(text: str, count: int, starts: Iterator[int], replace_all: bool) -> None:
    if replace_all and count > MAX_REPLACED:
        raise ToolFailed(
            f"old_string is in the file {count} times; change so many with a program, through bash"
        )
    if replace_all or count == 1:
        return
    lines: list[int] = []
    line, at = 1, 0
    for start in itertools.islice(starts, MAX_LINES_NAMED):
        line, at = line + text.count("\n", at, start), start
        lines.append(line)
    named = ", ".join(map(str, lines)) + (", …" if count > MAX_LINES_NAMED else "")
    raise ToolFailed(
        f"old_string is in the file {count} times (lines {named}); give more of the lines around it to say "
        "which one is meant, or set replace_all"
    )


def _occurrences(text: str, old: str) -> Iterator[int]:
    """Where it stands, without overlaps, as `str.replace` counts."""
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + len(old))


# Slips


class _Slip(NamedTuple):
    """What the model may have meant instead."""

    old: str
    new: str
    note: str


def _tolerant(text: str, old: str, new: str) -> Iterator[Found]:
    slips = [_Slip(old, new, ""), *_slips(old, new)]
    for slip in slips[1:]:
        spans = tuple(Span(at, at + len(slip.old), slip.new) for at in _occurrences(text, slip.old))
        if spans:
            yield Found(spans, slip.note)
    yield from _typographic(text, old, new)
    for slip in slips:
        spans = tuple(_by_lines(text, slip.old, slip.new))
        if spans:
            yield Found(spans, " ".join(filter(None, [slip.note, _WHITESPACE])))


_WHITESPACE = (
    "The whitespace of old_string differed from the file's; the new text was indented as the file is."
)

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "`": "`", "\\": "\\", "/": "/"}
_ESCAPED_QUOTE = re.compile(r"\\([\"'`])")
_NUMBERED = re.compile(r"^ *\d+\|", re.MULTILINE)


def _slips(old: str, new: str) -> Iterator[_Slip]:
    if all(_NUMBERED.match(line) for line in old.strip("\n").split("\n")):
        bare = _NUMBERED.sub("", new) if _NUMBERED.match(new) else new
        yield _Slip(_NUMBERED.sub("", old), bare, "Line numbers were left out of old_string.")
    note = "old_string and new_string were escaped once too often; that was undone."
    if "\\" in old and "\n" not in old:
        yield _Slip(_unescaped(old), _unescaped(new), note)
    if _ESCAPED_QUOTE.search(old):
        yield _Slip(_without_escapes(old), _without_escapes(new), note)


def _unescaped(text: str) -> str:
    return re.sub(r"\\([ntr\"'`\\/])", lambda found: _ESCAPES[found[1]], text)


def _without_escapes(text: str) -> str:
    return _ESCAPED_QUOTE.sub(r"\1", text)


_PLAIN = str.maketrans("‘’‚‛′“”„‟″‐‑‒–—−\u00a0\u2002\u2003\u2009\u202f", "'''''\"\"\"\"\"------     ")
"""One character for one, so that places stay the same."""


def _typographic(text: str, old: str, new: str) -> Iterator[Found]:
    """Only what differs between old and new is put in, so that the file keeps its own quotes around it."""
    same, wanted = text.translate(_PLAIN), old.translate(_PLAIN)
    if (same, wanted) == (text, old):
        return
    ahead, behind = _common(wanted, new.translate(_PLAIN))
    spans = tuple(
        Span(at + ahead, at + len(old) - behind, new[ahead : len(new) - behind])
        for at in _occurrences(same, wanted)
    )
    if spans:
        yield Found(spans, "Quotes, dashes or spaces of old_string were other characters in the file.")


def _common(one: str, other: str) -> tuple[int, int]:
    """How many characters are the same at the beginning and at the end."""
    limit = min(len(one), len(other))
    ahead = next((i for i in range(limit) if one[i] != other[i]), limit)
    behind = next((i for i in range(limit - ahead) if one[-1 - i] != other[-1 - i]), limit - ahead)
    return ahead, behind


# Whitespace


def _by_lines(text: str, old: str, new: str) -> Iterator[Span]:
    """Whole lines that are the same but for whitespace."""
    wanted = old.split("\n")
    ends_line = len(wanted) > 1 and not wanted[-1]
    if ends_line:
        wanted.pop()
    keys = [_key(line) for line in wanted]
    if not any(keys):
        return
    lines = text.split("\n")
    # In one string, searching for several lines is one search, and linear.
    haystack = "\n" + "\n".join(map(_key, lines)) + "\n"
    needle = "\n" + "\n".join(keys) + "\n"
    starts = _starts_of(lines)
    line = at = 0
    for found in _occurrences_sharing_ends(haystack, needle):
        line, at = line + haystack.count("\n", at, found), found
        there = lines[line : line + len(wanted)]
        last = line + len(wanted)
        end = starts[last] - 1 if last < len(starts) else len(text)
        if ends_line and last < len(starts):
            end += 1
        yield Span(starts[line], end, indentation.fitted(new, wanted, there, lines))


def _occurrences_sharing_ends(haystack: str, needle: str) -> Iterator[int]:
    """Matches one after the other; the newline that ends one begins the next."""
    at = haystack.find(needle)
    while at >= 0:
        yield at
        at = haystack.find(needle, at + len(needle) - 1)


def _key(line: str) -> str:
    return " ".join(line.split())


def _starts_of(lines: list[str]) -> list[int]:
    starts: list[int] = []
    at = 0
    for line in lines:
        starts.append(at)
        at += len(line) + 1
    return starts
