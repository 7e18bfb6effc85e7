"""What the tools of servers are called: `mcp_<server>_<tool>`, in letters that every provider accepts.

The prefix keeps them apart from the tools of Bullpen. Two tools never share a name, and a name once given stays
with its tool: what a person allowed for one must not come to mean another when a server goes away.
"""

from __future__ import annotations

import hashlib
import re

MAX_LENGTH = 64
"""The shortest limit of a provider that is in use."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


class ToolNames:
    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._owners: dict[str, tuple[str, str]] = {}

    def name(self, server: str, tool: str) -> str:
        owner = (server, tool)
        if owner not in self._given:
            plain = _FORBIDDEN.sub("_", f"mcp_{server}_{tool}")
            free = len(plain) <= MAX_LENGTH and plain not in self._owners
            self._give(plain if free else _marked(plain, owner), owner)
        return self._given[owner]

    def _give(self, name: str, owner: tuple[str, str]) -> None:
        self._given[owner] = name
        self._owners[name] = owner


def _marked(plain: str, owner: tuple[str, str]) -> str:
    """The name cut to length, with a mark that follows from what it stands for."""
    mark = hashlib.sha256("\0".join(owner).encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{plain[: MAX_LENGTH - len(mark) - 1]}_{mark}"
