"""What the tools of servers are called: `mcp_<server>_<tool>`, in letters that every provider accepts.

The prefix keeps them apart from the tools of Bullpen. Two tools never share a name, and a name once given stays
with its tool: what a person allowed for one must not come to mean another when a server goes away.
"""

from __future__ import annotations

import hashlib
import itertools
import re

MAX_LENGTH = 64
"""The shortest limit of a provider that is in use."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


class ToolNames:
    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()

    def name(self, server: str, tool: str) -> str:
        owner = (server, tool)
        if owner not in self._given:
            name = self._free_name(owner)
            self._given[owner] = name
            self._taken.add(name)
        return self._given[owner]

    def _free_name(self, owner: tuple[str, str]) -> str:
        plain = _FORBIDDEN.sub("_", "_".join(("mcp", *owner)))
        if len(plain) <= MAX_LENGTH and plain not in self._taken:
            return plain
        # A server may have guessed a mark and taken it, hence the attempts.
        marked = (_marked(plain, owner, attempt) for attempt in itertools.count())
        return next(name for name in marked if name not in self._taken)


def _marked(plain: str, owner: tuple[str, str], attempt: int) -> str:
    """The name cut to length, with a mark that follows from what it stands for."""
    whole = "\0".join((*owner, str(attempt)))
    mark = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{plain[: MAX_LENGTH - len(mark) - 1]}_{mark}"
