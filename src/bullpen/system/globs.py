"""Patterns for paths: `*` and `?` within a name, `[a-z]`, `**` for any directories, `{a,b}` for either.

A path is matched name by name, so the time it takes grows with the lengths of path and pattern, and no pattern can make
it explode. A name that begins with a dot is matched only by one that does too.
"""

from __future__ import annotations

import fnmatch
import re

MAX_ALTERNATIVES = 256
MAX_CHARACTERS = 1000

_BRACES = re.compile(r"\{([^{}]*)\}")
_WILD = re.compile(r"[*?\[{]")


class BadPattern(ValueError):
    """Says what is wrong with a pattern."""


class Glob:
    """One pattern, for relative paths with `/` between names."""

    def __init__(self, pattern: str) -> None:
        """Raises `BadPattern`."""
        self._alternatives = [
            [None if part == "**" else _Name(part) for part in each.split("/") if part not in {"", "."}]
            for each in expand(pattern)
        ]
        self._within: dict[str, list[set[int]]] = {}
        """How far each alternative has come behind a directory: many paths begin alike."""

    def matches(self, path: str) -> bool:
        directory, _, name = path.rpartition("/")
        return any(
            len(parts) in _further(places, name, parts)
            for places, parts in zip(self._behind(directory), self._alternatives, strict=True)
            if places
        )

    def _behind(self, directory: str) -> list[set[int]]:
        known = self._within.get(directory)
        if known is None:
            known = [_closed({0}, parts) for parts in self._alternatives]
            for name in directory.split("/") if directory else ():
                known = [
                    _further(places, name, parts)
                    for places, parts in zip(known, self._alternatives, strict=True)
                ]
            self._within[directory] = known
        return known


class _Name:
    def __init__(self, pattern: str) -> None:
        self.is_hidden = pattern.startswith(".")
        # Since Python 3.9 what this makes does not try a `*` again once what follows it was found.
        self.match = re.compile(fnmatch.translate(pattern)).match


def _further(places: set[int], name: str, parts: list[_Name | None]) -> set[int]:
    """All places in the pattern that one more name may lead to, as an automaton does."""
    is_hidden = name.startswith(".")
    further: set[int] = set()
    for place in places:
        if place == len(parts):
            continue
        part = parts[place]
        if part is None:
            if not is_hidden:
                further.add(place)
        elif is_hidden == part.is_hidden and part.match(name):
            further.add(place + 1)
    return _closed(further, parts)


def _closed(places: set[int], parts: list[_Name | None]) -> set[int]:
    """With those behind a `**`, which may stand for no directory at all."""
    found = set(places)
    for place in places:
        here = place
        while here < len(parts) and parts[here] is None:
            here += 1
            found.add(here)
    return found


def expand(pattern: str) -> list[str]:
    """The pattern without braces, once for each of their alternatives. Raises `BadPattern`."""
    if len(pattern) > MAX_CHARACTERS:
        raise BadPattern(f"the pattern is longer than {MAX_CHARACTERS} characters")
    pending, done = [pattern], []
    while pending:
        text = pending.pop()
        found = _BRACES.search(text)
        if found is None:
            done.append(text)
        else:
            before, after = text[: found.start()], text[found.end() :]
            pending += [before + choice + after for choice in reversed(found[1].split(","))]
        if len(pending) + len(done) > MAX_ALTERNATIVES:
            raise BadPattern(f"the braces stand for more than {MAX_ALTERNATIVES} patterns")
    return done


def split(pattern: str) -> tuple[str, str]:
    """The directories that a pattern begins with, and the rest, which is never empty."""
    parts = pattern.split("/")
    plain = 0
    while plain < len(parts) - 1 and not _WILD.search(parts[plain]):
        plain += 1
    return "/".join(parts[:plain]) or ("/" if plain else ""), "/".join(parts[plain:])


def wants_hidden(pattern: str) -> bool:
    """Whether it names something that begins with a dot."""
    return re.search(r"(^|[/{,])\.[^./]", pattern) is not None


_SIMPLE_NAME = re.compile(r"(?!.*\*\*)(?:[\w.*?-]|\{[\w.*?,-]*\})+")


def name_filter(pattern: str) -> str:
    """What a name at the end of a match must be like, in words that ripgrep understands; "" when it may be anything."""
    if re.search(r"\{[^}]*/", pattern):
        return ""
    name = pattern.rpartition("/")[2]
    return name if _SIMPLE_NAME.fullmatch(name) and name.strip("*") else ""
