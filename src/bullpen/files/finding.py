"""Which of many paths somebody means who has typed a few letters of one."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

LONGEST_QUERY = 200
NOT_AT_ALL = 6
"""Behind every tier of fitting names."""


class Name(NamedTuple):
    """A path, relative to the workspace, with what it is compared by. Folders end with a slash."""

    path: str
    lower: str
    last: str
    """Its last part in lower letters."""

    @classmethod
    def of(cls, path: str) -> Name:
        lower = path.lower()
        return cls(path, lower, lower.rstrip("/").rpartition("/")[2])


def with_folders(paths: Iterable[str]) -> list[Name]:
    """The paths of files, and the folders that these lie in."""
    files = list(paths)
    folders: set[str] = set()
    for path in files:
        folder = path.rpartition("/")[0]
        while folder and f"{folder}/" not in folders:
            folders.add(f"{folder}/")
            folder = folder.rpartition("/")[0]
    return [Name.of(path) for path in (*files, *folders)]


def best(names: Iterable[Name], query: str, limit: int) -> list[str]:
    """At most so many paths: first what is called so, then what begins so, then what has a part that begins so, then what has the
    letters together, then what has them in their order. Of equals the nearest to the top and the shortest."""
    wanted = query.lower().removeprefix("./")[:LONGEST_QUERY]
    if not wanted:
        found = ((name.lower.rstrip("/").count("/"), len(name.path), name.path) for name in names)
        return [path for _, _, path in heapq.nsmallest(limit, found)]
    return [path for _, _, _, path in heapq.nsmallest(limit, _fitting(names, wanted))]


def _fitting(names: Iterable[Name], wanted: str) -> Iterator[tuple[int, int, int, str]]:
    # Anchored, and each piece ends at the first of its letter: the time grows with the length of a name alone.
    in_order = re.compile(
        "".join(f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in wanted), re.DOTALL
    )
    is_path = "/" in wanted
    part = f"/{wanted}"
    for name in names:
        if is_path:
            if wanted in (name.lower, name.lower.rstrip("/")):
                tier = 0
            elif name.lower.startswith(wanted):
                tier = 2
            else:
                tier = 3 if part in name.lower else _loosely(name, wanted, in_order)
        elif wanted in (name.last, name.last.partition(".")[0]):
            # Of two that are called so, the file is meant.
            tier = 1 if name.path.endswith("/") else 0
        elif name.last.startswith(wanted):
            tier = 2
        elif name.lower.startswith(wanted) or part in name.lower:
            tier = 3
        else:
            tier = _loosely(name, wanted, in_order)
        if tier < NOT_AT_ALL:
            yield tier, name.lower.rstrip("/").count("/"), len(name.path), name.path


def _loosely(name: Name, wanted: str, in_order: re.Pattern[str]) -> int:
    if wanted in name.lower:
        return 4
    return 5 if in_order.match(name.lower) else NOT_AT_ALL
