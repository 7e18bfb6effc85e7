"""What is stored of a workspace, as clients ask for it: sessions, messages, files, the queue, notes, spending, asks.

Nothing here needs the agent; `Workspace` adds what is alive.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TypeVar

import msgspec

from bullpen.asks.question import open_asks_json
from bullpen.asks.remembering import new_rule
from bullpen.engine import queue
from bullpen.errors import BadRequest, GrantNotFound, NotFound, RuleNotFound
from bullpen.schema.agent import ZERO_TIME, Group, QueuedPrompt, SpentRow, ToolCallsRow, rfc3339
from bullpen.schema.api import Dropped, NewRule, QueueEdit, SessionChange
from bullpen.schema.asks import Grant, Rule
from bullpen.schema.events import RunWaiting
from bullpen.schema.runs import Run
from bullpen.schema.session import HistoryItem, Pin, SearchHit, Session
from bullpen.store import (
    asks,
    files,
    ledger,
    messages,
    pins,
    rules,
    runs,
    search,
    sessions,
    summaries,
    tool_calls,
    waits,
)
from bullpen.store.store import Store
from bullpen.store.tx import Tx, Work
from bullpen.system.clock import Clock
from bullpen.system.failpoints import hit
from bullpen.workspace.claims import Claims

T = TypeVar("T")


class Records:
    """The stored side of one workspace."""

    def __init__(self, workspace_id: str, root: Path, store: Store, clock: Clock, claims: Claims) -> None:
        self.id = workspace_id
        self.claims = claims
        self._root = root
        self._store = store
        self._clock = clock

    # Sessions and their notes

    async def sessions(self) -> list[Session]:
        return [self._seen_now(s) for s in await self._read(lambda tx: sessions.top_level(tx, self.id))]

    async def create_session(self, title: str) -> Session:
        session = await self._write(lambda tx: sessions.create(tx, self.id, str(uuid.uuid4()), title))
        hit("session-created")
        return session

    async def session(self, session_id: str) -> Session:
        return self._seen_now(await self._read(lambda tx: sessions.get(tx, self.id, session_id)))

    async def change_session(self, session_id: str, change: SessionChange) -> Session:
        """Title and todos; todos only while the agent, which keeps them too, is not at work."""

        async def work(tx: Tx) -> Session:
            busy = (await sessions.get(tx, self.id, session_id)).is_busy
            todos = None if busy else change.todos
            return await sessions.change(tx, self.id, session_id, title=change.title, todos=todos)

        session = await self._write(work)
        hit("session-changed")
        return session

    async def agent_session(self, session_id: str) -> Session:
        """Only id, title and busy are filled; an unknown session is an idle one without a title."""

        async def work(tx: Tx) -> tuple[str, bool]:
            if not await sessions.exists(tx, self.id, session_id):
                return "", False
            session = await sessions.get(tx, self.id, session_id)
            return session.title, session.is_busy

        title, busy = await self._read(work)
        return Session(
            id=session_id,
            parent_session_id="",
            title=title,
            message_count=0,
            prompt_tokens=0,
            completion_tokens=0,
            summary_message_id="",
            cost=0,
            created_at=0,
            updated_at=0,
            is_busy=busy,
            attached_clients=0,
        )

    async def undo_summary(self, session_id: str) -> Session:
        return await self._write(lambda tx: summaries.undo(tx, self.id, session_id))

    async def pins(self, session_id: str) -> list[Pin]:
        return await self._read(lambda tx: pins.of_session(tx, self.id, session_id))

    async def pin(self, session_id: str, text: str, author: str) -> Pin:
        if not text.strip():
            raise BadRequest("the text is empty")
        return await self._write(lambda tx: pins.add(tx, self.id, session_id, text, author))

    async def unpin(self, session_id: str, pin_id: str) -> None:
        if not await self._write(lambda tx: pins.remove(tx, self.id, session_id, pin_id)):
            raise NotFound("pin not found")

    # Messages and files

    async def messages(self, session_id: str, *, limit: int = 0, before: str = "") -> bytes:
        if not limit:
            return await self._read(lambda tx: messages.list_json(tx, self.id, session_id))
        return await self._read(lambda tx: messages.page_json(tx, self.id, session_id, limit, before))

    async def user_messages(self, session_id: str | None) -> bytes:
        return await self._read(lambda tx: messages.user_json(tx, self.id, session_id))

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        return await self._read(lambda tx: search.find(tx, self.id, query, limit))

    async def history(self, session_id: str) -> list[HistoryItem]:
        return await self._read(lambda tx: files.history(tx, self.id, session_id))

    async def read_files(self, session_id: str) -> list[str]:
        return await self._read(lambda tx: files.read_paths(tx, self.id, session_id))

    async def mark_read(self, session_id: str, path: str) -> None:
        absolute, at = str(self._root / path), self._clock.time()

        async def work(tx: Tx) -> None:
            if await sessions.exists(tx, self.id, session_id):
                await files.mark_read(tx, self.id, session_id, absolute, at)

        await self._write(work)

    async def last_read(self, session_id: str, path: str) -> str:
        absolute = str(self._root / path)
        at = await self._read(lambda tx: files.read_at(tx, self.id, session_id, absolute))
        return ZERO_TIME if at is None else rfc3339(int(at))

    # What waits, what was spent

    async def queue(self, session_id: str) -> list[QueuedPrompt]:
        return await self._read(lambda tx: queue.listed(tx, self.id, session_id))

    async def clear_queue(self, session_id: str) -> Dropped:
        return Dropped(dropped=await self._write(lambda tx: queue.clear(tx, self.id, session_id)))

    async def edit_queued(self, session_id: str, seq: int, change: QueueEdit) -> QueuedPrompt:
        if change.prompt is not None and not change.prompt:
            raise BadRequest("prompt is empty")
        edited = await self._write(lambda tx: queue.edit(tx, self.id, session_id, seq, change))
        hit("queue-edited")
        return edited

    async def withdraw(self, session_id: str, seq: int) -> None:
        await self._write(lambda tx: queue.withdraw(tx, self.id, session_id, seq))
        hit("queue-withdrawn")

    async def waiting(self) -> list[RunWaiting]:
        """The turns that wait for their model's host."""
        return await self._read(lambda tx: waits.all_of(tx, self.id))

    async def runs(self) -> list[Run]:
        """The prompts that wait or run."""
        return await self._read(lambda tx: runs.under_way(tx, self.id))

    async def run(self, run_id: str) -> Run:
        """Raises `RunNotFound`."""
        return await self._read(lambda tx: runs.get(tx, self.id, run_id))

    async def spending(self, by: Group, since: int) -> list[SpentRow]:
        """What model calls cost, summed up by one thing."""
        return await self._read(lambda tx: ledger.grouped(tx, self.id, by, since))

    async def tool_calls(self, since: int) -> list[ToolCallsRow]:
        """How often each tool was called."""
        return await self._read(lambda tx: tool_calls.by_tool(tx, self.id, since))

    # Asks

    async def asks(self) -> bytes:
        return open_asks_json(await self._read(lambda tx: asks.all_open(tx, self.id)))

    async def grants(self) -> list[Grant]:
        return await self._read(lambda tx: asks.grants(tx, self.id))

    async def revoke(self, grant_id: str) -> None:
        if not await self._write(lambda tx: asks.revoke(tx, self.id, grant_id)):
            raise GrantNotFound(grant_id)

    async def stored_rules(self) -> list[Rule]:
        """The permission rules that people made."""
        return await self._read(lambda tx: rules.in_force(tx, self.id))

    async def add_rule(self, body: NewRule, by: str) -> Rule:
        """Raises `BadRequest` for a rule that cannot mean what it says."""

        async def work(tx: Tx) -> Rule:
            rule = new_rule(body, by=by, now=tx.now)
            if rule.session_id:
                await sessions.get(tx, self.id, rule.session_id)
            await rules.add(tx, self.id, rule)
            return rule

        return await self._write(work)

    async def remove_rule(self, rule_id: str) -> None:
        if not await self._write(lambda tx: rules.remove(tx, self.id, rule_id)):
            raise RuleNotFound(rule_id)

    # Inside

    def _seen_now(self, session: Session) -> Session:
        """Who looks at a session is not stored, and may have changed while it was read."""
        return msgspec.structs.replace(session, attached_clients=self.claims.attached_to(session.id))

    async def _read(self, work: Work[T]) -> T:
        return await self._store.read(work)

    async def _write(self, work: Work[T], *, durable: bool = True) -> T:
        return await self._store.write(work, durable=durable)
