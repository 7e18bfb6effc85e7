"""What a path means, and whether it lies in the workspace."""

from __future__ import annotations

import os
from pathlib import Path


def resolve(root: Path, path: str) -> Path:
    """The absolute path meant by a model: `~` expanded, relative ones joined to the root.

    Links are kept, so the path reads as it was given; only around `..` they are resolved, since there
    the name alone does not tell where it leads.
    """
    expanded = os.path.join(root, os.path.expanduser(path))
    if ".." in Path(expanded).parts:
        return Path(os.path.realpath(expanded))
    return Path(os.path.normpath(expanded))


def real(path: Path) -> Path:
    """Where the path really leads, every link followed; the last parts need not exist."""
    return Path(os.path.realpath(path))


def is_inside(root: Path, path: Path) -> bool:
    """Whether the path, links resolved, lies in the directory or is it."""
    return real(path).is_relative_to(real(root))


def joined(base: Path, text: str) -> Path:
    """The path that a word means in a directory, by its name alone: no link is followed."""
    return Path(os.path.normpath(os.path.join(base, os.path.expanduser(text))))
