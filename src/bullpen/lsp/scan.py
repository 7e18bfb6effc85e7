"""Notices which source files of a workspace were made, changed or removed since the last look.

Servers keep what they have read and count on being told. A look is a walk over what is not ignored, taken when
somebody wants an answer: it costs nothing while nobody does, and is never late. What a directory holds is listed again
only when it has changed, so that a further look is little more than the times of the files. It blocks: call it in a thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bullpen.lsp.documents import CHANGED, CREATED, DELETED
from bullpen.system.ignore import IgnoreRules

MAX_FILES = 20_000
"""Past this the rest is not watched; a walk has to stay a matter of a moment."""

SETTLED_NS = 100_000_000
"""A directory that changed this short a time ago may change again without getting another time."""

Seen = dict[str, tuple[int, int]]


class _Listing(NamedTuple):
    """What a directory held at a time."""

    changed_ns: int
    files: list[str]
    directories: list[tuple[Path, IgnoreRules]]


class Scan:
    """One per workspace. The first look only remembers."""

    def __init__(self, root: Path, is_wanted: Callable[[Path], bool]) -> None:
        self._root = root
        self._is_wanted = is_wanted
        self._seen: Seen | None = None
        self._listings: dict[Path, _Listing] = {}

    def changes(self) -> list[tuple[Path, int]]:
        found = self._walk()
        before, self._seen = self._seen, found
        if before is None:
            return []
        made = [(Path(path), CREATED) for path in found.keys() - before.keys()]
        gone = [(Path(path), DELETED) for path in before.keys() - found.keys()]
        other = [(Path(path), CHANGED) for path, stamp in found.items() if before.get(path, stamp) != stamp]
        return sorted(made + gone + other)

    def _walk(self) -> Seen:
        found: Seen = {}
        old, self._listings = self._listings, {}
        left = [(self._root, IgnoreRules(self._root))]
        while left and len(found) < MAX_FILES:
            directory, rules = left.pop()
            try:
                listing = self._listing(directory, rules, old.get(directory))
            except OSError:
                continue
            self._listings[directory] = listing
            left += listing.directories
            for name in listing.files:
                try:
                    status = os.stat(name, follow_symlinks=False)
                except OSError:
                    continue
                found[name] = (status.st_mtime_ns, status.st_size)
        return found

    def _listing(self, directory: Path, rules: IgnoreRules, known: _Listing | None) -> _Listing:
        changed_ns = os.stat(directory, follow_symlinks=False).st_mtime_ns
        if known is not None and known.changed_ns == changed_ns:
            return known
        is_settled = time.time_ns() - changed_ns > SETTLED_NS
        listing = _Listing(changed_ns if is_settled else 0, [], [])
        with os.scandir(directory) as entries:
            for entry in entries:
                here, is_dir = directory / entry.name, entry.is_dir(follow_symlinks=False)
                is_file = not is_dir and self._is_wanted(here) and entry.is_file(follow_symlinks=False)
                if not (is_dir or is_file) or rules.hides(here, is_dir=is_dir):
                    continue
                if is_dir:
                    listing.directories.append((here, rules.inside(here)))
                else:
                    listing.files.append(str(here))
        return listing
