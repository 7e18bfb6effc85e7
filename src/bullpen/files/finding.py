"""Which of many paths somebody means who has typed a few letters of one."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator

LONGEST_QUERY = 200


Name = tuple[str, str]
"""A path, relative to the workspace, and the same in lower letters. Folders end with a slash."""


def with_folders(paths: Iterable[str]) -> list[Name]:
    """The paths of files, and the folders that these lie in."""
    files = list(paths)
    folders: set[str] = set()
    for path in files:
        folder = path.rpartition("/")[0]
        while folder and f"{folder}/" not in folders:
            folders.add(f"{folder}/")
            folder = folder.rpartition("/")[0]
    return [(path, path.lower()) for path in (*files, *folders)]


def best(names: Iterable[Name], query: str, limit: int) -> list[str]:
    """At most so many paths: first what is called so, then what begins so, then what has a part that begins so, then what has the
    letters together, then what has them in their order. Of equals the nearest to the top and the shortest."""
    wanted = query.lower().removeprefix("./")[:LONGEST_QUERY]
    if not wanted:
        found = ((lower.rstrip("/").count("/"), len(path), path) for path, lower in names)
        return [path for _, _, path in heapq.nsmallest(limit, found)]
    return [path for _, _, _, path in heapq.nsmallest(limit, _fitting(names, wanted))]


def _fitting(names: Iterable[Name], wanted: str) -> Iterator[tuple[int, int, int, str]]:
    # Anchored, and each piece ends at the first of its letter: the time grows with the length of a name alone.
    pieces = (f"[^{re.escape(letter)}]*{re.escape(letter)}" for letter in wanted)
    has_letters = re.compile("".join(pieces), re.DOTALL).match
    tier_of = _tier_of_path if "/" in wanted else _tier_of_name
    for path, lower in names:
        if has_letters(lower):
            bare = lower.rstrip("/")
            yield tier_of(bare, wanted, len(bare) < len(lower)), bare.count("/"), len(path), path


def _tier_of_name(lower: str, wanted: str, is_folder: bool) -> int:
    last = lower.rpartition("/")[2]
    if wanted in (last, last.partition(".")[0]):
        # Of two that are called so, the file is meant.
        return 1 if is_folder else 0
    if last.startswith(wanted):
        return 2
    return 3 if lower.startswith(wanted) or f"/{wanted}" in lower else _loosely(lower, wanted)


def _tier_of_path(lower: str, wanted: str, is_folder: bool) -> int:
    whole = f"{lower}/" if is_folder else lower
    if wanted in (lower, whole):
        return 0
    if whole.startswith(wanted):
        return 2
    return 3 if f"/{wanted}" in whole else _loosely(whole, wanted)


def _loosely(lower: str, wanted: str) -> int:
    return 4 if wanted in lower else 5
