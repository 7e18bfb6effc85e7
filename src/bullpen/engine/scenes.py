"""The state of the work tree as a conversation is told of it.

It stands in the system prompt, before every message, and a host's cache ends at the first word that differs. So a session
is told once, and again when a summary has made its conversation anew: the words say that time has passed since.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from bullpen.engine.prompt import work_tree
from bullpen.schema.session import Session
from bullpen.system.git import Snapshot

MOST = 256
"""Sessions that are remembered; of one that was quiet longer, the cache is gone as well."""


class Scenes:
    def __init__(self) -> None:
        self._told: OrderedDict[tuple[str, str], str] = OrderedDict()

    async def of(self, session: Session, look: Callable[[], Awaitable[Snapshot | None]]) -> str:
        """What is said in this session; looks only when nothing has been said yet."""
        key = (session.id, session.summary_message_id)
        if key not in self._told:
            self._told[key] = work_tree(await look())
            while len(self._told) > MOST:
                self._told.popitem(last=False)
        self._told.move_to_end(key)
        return self._told[key]
