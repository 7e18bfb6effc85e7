"""Whether files have changed, told by their sizes and times, as far as that can tell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

Stamps = dict[Path, tuple[int, int, int] | None]
"""Inode, size and time of change by path; None for what is not there."""


class Watched(NamedTuple):
    """What a configuration is made from. `own` are files that Bullpen writes itself."""

    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    own: tuple[Path, ...] = ()


def stamps_of(watched: Watched) -> Stamps:
    """Blocks: it looks at every file, and at the files in every folder."""
    stamps: Stamps = {path: _stamp(path) for path in (*watched.files, *watched.folders, *watched.own)}
    for folder in watched.folders:
        try:
            with os.scandir(folder) as entries:
                stamps |= {
                    folder / e.name: _stamp(folder / e.name) for e in entries if e.name.endswith(".md")
                }
        except OSError:
            continue
    return stamps


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
