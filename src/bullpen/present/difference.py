"""What changed between two texts, as a unified diff to be shown."""

from __future__ import annotations

from bullpen.files.diff import unified


def difference(before: str, after: str, name: str = "") -> str:
    """A unified diff, without the two lines that name the file."""
    _, _, *lines = unified(before, after, name).text.split("\n") if before != after else ("", "")
    return "\n".join(lines)
