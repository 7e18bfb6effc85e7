"""Which files nobody wants to see in a listing: ignore files at every level, and the usual clutter."""

from __future__ import annotations

from pathlib import Path

import pathspec

IGNORE_FILES = (".gitignore", ".bullpenignore", ".crushignore")

_CLUTTER = """
    .git .hg .svn .jj .bzr .idea .vscode .vs .DS_Store Thumbs.db
    node_modules bower_components __pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache .ruff_cache
    .cache .gradle .terraform .next .nuxt .svelte-kit .parcel-cache .turbo .eggs .bullpen .crush
    """
CLUTTER = frozenset(_CLUTTER.split())
"""Names that are skipped wherever they stand: version control, editors, caches, installed packages."""

MAX_BYTES = 1024 * 1024
"""An ignore file past this is not one."""


class IgnoreRules:
    """The rules that hold in one directory: its own ignore files after those of the directories above."""

    def __init__(self, directory: Path, above: IgnoreRules | None = None) -> None:
        self._directory = directory
        self._above = above
        lines = [line for name in IGNORE_FILES for line in _lines_of(directory / name)]
        if above is None:
            lines = _lines_of(directory / ".git" / "info" / "exclude") + lines
        self._spec = pathspec.GitIgnoreSpec.from_lines(lines) if lines else None

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
        if self._spec is not None:
            name = path.relative_to(self._directory).as_posix()
            found = self._spec.check_file(f"{name}/" if is_dir else name).include
            if found is not None:
                return found
        return self._above._verdict(path, is_dir) if self._above else None


def _lines_of(file: Path) -> list[str]:
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            return lines.read(MAX_BYTES).splitlines()
    except OSError:
        return []
