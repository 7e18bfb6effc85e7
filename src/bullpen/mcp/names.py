"""What the tools of servers are called: `mcp_<server>_<tool>`, in letters that every provider accepts.

The prefix keeps them apart from the tools of Bullpen. Two tools never share a name, and a name once given stays
with its tool: what a person allowed for one must not come to mean another when a server goes away. A name that
begins like those of another configured server is marked, whoever of the two is there first: the tool `b_c` of a
server `a` cannot pass for the tool `c` of a server `a_b`.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable

MAX_LENGTH = 64
"""The shortest limit of a provider that is in use."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


class ToolNames:
    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()
        self._servers: set[str] = set()

    def know(self, servers: Iterable[str]) -> None:
        """These are configured; what begins like their tools is theirs."""
        self._servers |= set(servers)

    def name(self, server: str, tool: str) -> str:
        owner = (server, tool)
        if owner not in self._given:
            name = self._free_name(owner)
            self._given[owner] = name
            self._taken.add(name)
        return self._given[owner]

    def _free_name(self, owner: tuple[str, str]) -> str:
        plain = _FORBIDDEN.sub("_", "_".join(("mcp", *owner)))
        if (
            len(plain) <= MAX_LENGTH
            and plain not in self._taken
            and not self._is_like_anothers(plain, owner[0])
        ):
            return plain
        # A server may have guessed a mark and taken it, hence the attempts.
        marked = (_marked(plain, owner, attempt) for attempt in itertools.count())
        return next(name for name in marked if name not in self._taken)

    def _is_like_anothers(self, plain: str, server: str) -> bool:
        own = _prefix(server)
        for other in self._servers - {server}:
            theirs = _prefix(other)
            # Of servers that are written the same, the one whose name needs no change has the names.
            is_closer = len(theirs) > len(own) or (theirs == own and own != f"mcp_{server}_")
            if is_closer and plain.startswith(theirs):
                return True
        return False


def _prefix(server: str) -> str:
    return _FORBIDDEN.sub("_", f"mcp_{server}_")


def _marked(plain: str, owner: tuple[str, str], attempt: int) -> str:
    """The name cut to length, with a mark that follows from what it stands for."""
    whole = "\0".join((*owner, str(attempt)))
    mark = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{plain[: MAX_LENGTH - len(mark) - 1]}_{mark}"
