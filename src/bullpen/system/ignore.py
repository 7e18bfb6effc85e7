"""Which files nobody wants to see in a listing: ignore files at every level, and the usual clutter.

Ignore files belong to the project, so nothing in them may hold us up or tell anything: they are read only where they are ordinary
files of their directory, up to a limit, and their patterns are matched name by name in a time that grows with the lengths alone.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bullpen.system import files

IGNORE_FILES = (".gitignore", ".bullpenignore", ".crushignore")

_CLUTTER = """
    .git .hg .svn .jj .bzr .idea .vscode .vs .DS_Store Thumbs.db
    node_modules bower_components __pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache .ruff_cache
    .cache .gradle .terraform .next .nuxt .svelte-kit .parcel-cache .turbo .eggs .bullpen .crush
    """
CLUTTER = frozenset(_CLUTTER.split())
"""Names that are skipped wherever they stand: version control, editors, caches, installed packages."""

MAX_BYTES = 256 * 1024
MAX_RULES = 2000
MAX_CHARACTERS = 1000
"""Past these it is no ignore file, and no pattern of one."""


class IgnoreRules:
    """The rules that hold in one directory, given by its real path: its own ignore files after those of the directories above."""

    def __init__(self, directory: Path, above: IgnoreRules | None = None) -> None:
        self._directory = directory
        self._above = above
        lines = [line for name in IGNORE_FILES for line in _lines_of(directory / name)]
        if above is None:
            lines = _lines_of(directory / ".git" / "info" / "exclude") + lines
        self._rules = [rule for line in lines[:MAX_RULES] if (rule := _rule(line)) is not None]

    @classmethod
    def between(cls, root: Path, directory: Path) -> IgnoreRules:
        """The rules of a directory with all that holds from the root down; above the root nothing counts."""
        rules = cls(root)
        if directory != root and directory.is_relative_to(root):
            here = root
            for part in directory.relative_to(root).parts:
                here = here / part
                rules = rules.inside(here)
        elif directory != root:
            rules = cls(directory)
        return rules

    def inside(self, directory: Path) -> IgnoreRules:
        return IgnoreRules(directory, self)

    def hides(self, path: Path, *, is_dir: bool) -> bool:
        """Whether to leave out a file or directory below; the nearest rule that says anything decides."""
        return path.name in CLUTTER or self._verdict(path, is_dir) is True

    def _verdict(self, path: Path, is_dir: bool) -> bool | None:
        if self._rules:
            names = path.relative_to(self._directory).parts
            for rule in reversed(self._rules):
                if (is_dir or not rule.only_directories) and _matches(names, rule.parts):
                    return rule.hides
        return self._above._verdict(path, is_dir) if self._above else None


class _Rule(NamedTuple):
    """`parts` are the names of the way, None for any number of directories."""

    hides: bool
    only_directories: bool
    parts: tuple[re.Pattern[str] | None, ...]


def _rule(line: str) -> _Rule | None:
    """What a line says, by the rules of gitignore; None when it says nothing."""
    text = _without_spaces(line)
    if not text or text.startswith("#") or len(text) > MAX_CHARACTERS:
        return None
    hides = not text.startswith("!")
    text = text if hides else text[1:]
    only_directories = text.endswith("/")
    text = text.removesuffix("/")
    names = [name for name in text.split("/") if name]
    if not names:
        return None
    parts = [None if name == "**" else _name(name) for name in names]
    if "/" not in text:
        parts.insert(0, None)
    if parts[-1] is None:  # What is below, not the directory itself.
        parts.append(_name("*"))
    return _Rule(hides, only_directories, tuple(parts))


def _without_spaces(line: str) -> str:
    """Spaces at the end do not count, unless the last one is escaped."""
    bare = line.rstrip("\r\n").rstrip(" ")
    return bare + " " if bare.endswith("\\") and len(line) > len(bare) else bare


_ESCAPED = re.compile(r"\\(.?)", re.DOTALL)


def _name(pattern: str) -> re.Pattern[str]:
    """One name; what this makes does not try a `*` again once what follows it was found."""
    shell = _ESCAPED.sub(lambda found: f"[{found[1]}]" if found[1] in ("*", "?", "[") else found[1], pattern)
    return re.compile(fnmatch.translate(shell.replace("[^", "[!")))


def _matches(names: tuple[str, ...], parts: tuple[re.Pattern[str] | None, ...]) -> bool:
    """All places in the pattern that the names so far may have led to, as an automaton does."""
    places = set(_closed(0, parts))
    for name in names:
        further: set[int] = set()
        for place in places:
            if place == len(parts):
                continue
            part = parts[place]
            if part is None:
                further.update(_closed(place, parts))
            elif part.match(name):
                further.update(_closed(place + 1, parts))
        places = further
    return len(parts) in places


def _closed(place: int, parts: tuple[re.Pattern[str] | None, ...]) -> Iterator[int]:
    """A place, and those behind a `**`, which may stand for no directory at all."""
    yield place
    while place < len(parts) and parts[place] is None:
        place += 1
        yield place


def _lines_of(file: Path) -> list[str]:
    """A link is not followed, as git does not follow one either, and a pipe is not waited for."""
    try:
        content, _ = files.read_file(file, limit_bytes=MAX_BYTES)
    except OSError:
        return []
    return content.decode("utf-8", "replace").splitlines()
