"""Questions: a batch put to whoever is there, answered by batch id and question id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from bullpen.asks.pending import Pending
from bullpen.asks.permission import guard
from bullpen.schema.api import QuestionAnswer
from bullpen.schema.asks import QuestionBatch, QuestionResponse
from bullpen.schema.wire import encode
from bullpen.store import asks
from bullpen.store.store import Store
from bullpen.store.tx import Tx
from bullpen.system.failpoints import hit


class Answered(NamedTuple):
    """`responses` is None when the batch was cancelled."""

    responses: tuple[QuestionResponse, ...] | None


class Questions:
    """The questions of one workspace."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store = store
        self._workspace = workspace
        self._pending: Pending[Answered] = Pending()

    async def ask(self, batch: QuestionBatch, *, turn: int) -> Sequence[QuestionResponse | None] | None:
        """Wait for somebody; one response per question, or None when they cancelled the batch."""

        async def work(tx: Tx) -> None:
            await guard(tx, self._workspace, turn)
            await asks.open_question(tx, self._workspace, batch, turn=turn)

        answer = self._pending.expect(batch.id)
        try:
            await self._store.write(work)
            hit("ask-opened")
            responses = (await answer).responses
        finally:
            self._pending.forget(batch.id)
        if responses is None:
            return None
        by_id = {r.request_id: r for r in responses}
        return [by_id.get(question.id) for question in batch.questions]

    async def answer(self, answer: QuestionAnswer, by: str) -> bool:
        """False when the batch was resolved before, or is none of ours."""

        async def work(tx: Tx) -> bool:
            ask = await asks.get_open(tx, self._workspace, answer.batch_request_id)
            if ask is None or ask.kind != "question":
                return False
            body = encode(answer.responses)
            return await asks.answer(tx, self._workspace, ask.id, "answered", by=by, answer=body) is not None

        def answered(won: bool) -> None:
            if won:
                self._pending.resolve(answer.batch_request_id, Answered(answer.responses))

        won = await self._store.write(work, then=answered)
        hit("ask-answered")
        return won

    async def cancel(self, batch_id: str, by: str) -> bool:
        """Without an id the oldest open batch is meant."""

        async def work(tx: Tx) -> str:
            open_batches = [a for a in await asks.all_open(tx, self._workspace) if a.kind == "question"]
            chosen = next((a for a in open_batches if batch_id in ("", a.id)), None)
            if chosen is None:
                return ""
            await asks.answer(tx, self._workspace, chosen.id, "cancelled", by=by)
            return chosen.id

        def cancelled(batch: str) -> None:
            if batch:
                self._pending.resolve(batch, Answered(None))

        batch = await self._store.write(work, then=cancelled)
        return bool(batch)


def open_asks_json(open_asks: list[asks.Ask]) -> bytes:
    """`{"permissions": […], "questions": […]}` of what waits for a person."""
    by_kind = {"permissions": "permission", "questions": "question"}
    return msgspec.json.encode(
        {name: [msgspec.Raw(a.body) for a in open_asks if a.kind == kind] for name, kind in by_kind.items()}
    )
