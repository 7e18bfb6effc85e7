"""What a path means, and whether it lies in the workspace."""

from __future__ import annotations

import os
from pathlib import Path

from bullpen.errors import ToolFailed


def resolve(root: Path, path: str) -> Path:
    """The absolute path meant by a model: `~` expanded, relative ones joined to the root.

    Links are kept, so the path reads as it was given; only around `..` they are resolved, since there
    the name alone does not tell where it leads. Raises `ToolFailed` for what no file can be called.
    """
    if "\0" in path:
        raise ToolFailed(f"a path cannot hold the character NUL: {path!r}")
    expanded = os.path.join(root, os.path.expanduser(path))
    if ".." in Path(expanded).parts:
        return real(Path(expanded))
    return Path(os.path.normpath(expanded))


def real(path: Path) -> Path:
    """Where the path really leads, every link followed; the last parts need not exist. A link that cannot be read stays in it,
    and whoever goes that way step by step stops there."""
    try:
        return Path(os.path.realpath(path))
    except OSError:
        return Path(os.path.normpath(path))


def is_below(root: Path, path: Path) -> bool:
    """Whether a path that `real` gave lies in a directory that it gave, or is it. Nothing is looked up a second time, because
    it may lead elsewhere by then."""
    return path.is_relative_to(root)


def is_inside(root: Path, path: Path) -> bool:
    """Whether the path, links resolved, lies in the directory or is it."""
    return real(path).is_relative_to(real(root))


def joined(base: Path, text: str) -> Path:
    """The path that a word means in a directory, by its name alone: no link is followed."""
    return Path(os.path.normpath(os.path.join(base, os.path.expanduser(text))))
