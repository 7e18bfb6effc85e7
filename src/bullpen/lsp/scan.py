"""Notices which source files of a workspace were made, changed or removed since the last look.

Servers keep what they have read and count on being told. A look is a walk over what is not ignored, taken when
somebody wants an answer: it costs nothing while nobody does, and is never late. It blocks: call it in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from bullpen.lsp.documents import CHANGED, CREATED, DELETED
from bullpen.system.ignore import IgnoreRules

MAX_FILES = 20_000
"""Past this the rest is not watched; a walk has to stay a matter of a moment."""

Seen = dict[str, tuple[int, int]]


class Scan:
    """One per workspace. The first look only remembers."""

    def __init__(self, root: Path, is_wanted: Callable[[Path], bool]) -> None:
        self._root = root
        self._is_wanted = is_wanted
        self._seen: Seen | None = None

    def changes(self) -> list[tuple[Path, int]]:
        found: Seen = {}
        self._walk(self._root, IgnoreRules(self._root), found)
        before, self._seen = self._seen, found
        if before is None:
            return []
        made = [(Path(path), CREATED) for path in found.keys() - before.keys()]
        gone = [(Path(path), DELETED) for path in before.keys() - found.keys()]
        other = [(Path(path), CHANGED) for path, stamp in found.items() if before.get(path, stamp) != stamp]
        return sorted(made + gone + other)

    def _walk(self, directory: Path, rules: IgnoreRules, found: Seen) -> None:
        try:
            with os.scandir(directory) as entries:
                listed = list(entries)
        except OSError:
            return
        for entry in listed:
            if len(found) >= MAX_FILES:
                return
            is_dir = entry.is_dir(follow_symlinks=False)
            here = directory / entry.name
            if not is_dir and not self._is_wanted(here):
                continue
            if rules.hides(here, is_dir=is_dir):
                continue
            if is_dir:
                self._walk(here, rules.inside(here), found)
            else:
                try:
                    status = entry.stat()
                except OSError:
                    continue
                found[str(here)] = (status.st_mtime_ns, status.st_size)
