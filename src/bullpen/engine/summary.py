"""Summaries: a message that stands for all before it when the model is asked next."""

from __future__ import annotations

from bullpen.asks.permission import guard
from bullpen.engine import prompt
from bullpen.engine.answer import stream_answer
from bullpen.engine.draft import Draft
from bullpen.engine.history import History
from bullpen.engine.services import Chosen, Services
from bullpen.providers.base import ModelRequest, UserTurn
from bullpen.store import messages, prompts, sessions
from bullpen.store.growth import show
from bullpen.store.prompts import Prompt
from bullpen.store.tx import Tx
from bullpen.system.failpoints import hit


async def summarize(
    services: Services, chosen: Chosen, row: Prompt, history: History, todos: str, draft: Draft
) -> None:
    """Stream the summary into its message and put it in place. Raises `ProviderError`, `TurnCancelled`."""
    request = ModelRequest(
        purpose="summary",
        session_id=row.session,
        model=chosen.selected.model,
        system=tuple(s for s in (chosen.prefix, prompt.SUMMARY) if s),
        turns=(*history.turns, UserTurn("\n\n".join(filter(None, (prompt.SUMMARY_REQUEST, todos))))),
        settled=history.settled,
        settings=chosen.selected,
        can_reason=chosen.model.can_reason,
    )

    async def settle(draft: Draft) -> None:
        message = draft.message(services.now)
        pieces = services.store.growth.take_back(draft.open)

        async def work(tx: Tx) -> None:
            await guard(tx, services.workspace, row.seq)
            show(tx, draft.open, pieces)
            await messages.rewrite(tx, services.workspace, message, live=draft.open)

        await services.store.write(work, durable=False)

    hit("summary-asked")
    answer = await stream_answer(services, chosen, request, draft, settle)
    pieces = services.store.growth.take_back(draft.open)

    async def place(tx: Tx) -> None:
        workspace = services.workspace
        await guard(tx, workspace, row.seq)
        show(tx, draft.open, pieces)
        await messages.rewrite(tx, workspace, draft.finished(tx.now, "end_turn"))
        await prompts.end(tx, workspace, row.seq, "done")
        spent = answer.spent
        await sessions.set_summary(tx, workspace, row.session, draft.id, spent.completion, spent.cost)

    hit("summary-placing")
    await services.store.write(place, reserved=True)
