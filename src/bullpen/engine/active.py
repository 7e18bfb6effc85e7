"""A turn under way, as the store and the room see it: what it writes, waits for and spends.

Every write is refused once the turn has ended, whoever ended it. A sub-agent works within the turn that sent it: it has an
`Active` of its own for its session, and the same turn behind it.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from bullpen.asks.permission import guard
from bullpen.engine import budget
from bullpen.engine.draft import Draft
from bullpen.engine.services import Agent, Chosen, Services, choose
from bullpen.engine.spending import Payer, asked_of, book, entry_of, heard, said
from bullpen.errors import ProviderError
from bullpen.providers.base import ModelRequest, Usage
from bullpen.schema.agent import SelectedModel
from bullpen.schema.choices import Budget, Policy
from bullpen.schema.events import AgentEvent, RunWaiting
from bullpen.store import ledger, log, messages
from bullpen.store.growth import show
from bullpen.store.ledger import Purpose
from bullpen.store.prompts import Prompt
from bullpen.store.tx import Tx, Work

T = TypeVar("T")


class Active:
    """One session's part in a turn; `tool` names what sent it when it is a sub-agent's, `allowance` what that may spend."""

    def __init__(
        self,
        services: Services,
        agent: Agent,
        prompt: Prompt,
        session_id: str,
        *,
        tool: str = "",
        allowance: float = 0.0,
    ) -> None:
        self.services = services
        self.agent = agent
        self.prompt = prompt
        self.session_id = session_id
        self.tool = tool
        self._allowance = allowance
        self._ahead: list[asyncio.Future[None]] = []
        """Writes that nobody has waited for yet, oldest first."""

    @property
    def workspace(self) -> str:
        return self.services.workspace

    @property
    def is_child(self) -> bool:
        return self.session_id != self.prompt.session

    # Writing

    async def write(self, work: Work[T], *, durable: bool = True, reserved: bool = False) -> T:
        """Raises `TurnCancelled` once the turn has ended."""
        written = await self.services.store.write(self._guarded(work), durable=durable, reserved=reserved)
        await self.caught_up()
        return written

    def write_ahead(self, work: Work[None]) -> None:
        """The same without waiting: what is written later waits for it too, and fails if this did."""
        ahead = self.services.store.submit(self._guarded(work), durable=False)
        ahead.add_done_callback(_look_at)
        self._ahead.append(ahead)

    def tell(self, event: AgentEvent) -> None:
        """Let everybody hear of it; the turn goes on meanwhile."""

        async def work(tx: Tx) -> None:
            await log.append(tx, self.workspace, event, "created", key=self.session_id)

        self.write_ahead(work)

    async def caught_up(self) -> None:
        """Until all that was written ahead is stored. Raises what kept it from being stored."""
        while self._ahead:
            await self._ahead.pop(0)

    async def settle(self, draft: Draft) -> None:
        """Have the draft stored as it is now; the model may go on speaking meanwhile."""
        message = draft.message(self.services.now)
        pieces = self.services.store.growth.take_back(draft.open)

        async def work(tx: Tx) -> None:
            show(tx, draft.open, pieces)
            await messages.rewrite(tx, self.workspace, message, live=draft.open)

        self.write_ahead(work)

    def _guarded(self, work: Work[T]) -> Work[T]:
        async def guarded(tx: Tx) -> T:
            await guard(tx, self.workspace, self.prompt.seq)
            return await work(tx)

        return guarded

    # The model's host

    @property
    def policy(self) -> Policy:
        """What to do at a provider's limit: the session's word, then the workspace's."""
        own = self.services.choices.of(self.prompt.session).policy
        return own if isinstance(own, Policy) else self.agent.settings.policy

    async def wait(self, error: ProviderError, wait_s: float, attempt: int, chosen: Chosen) -> None:
        """Until the model may be asked again; everybody sees it, and anybody may end it."""
        waiting = RunWaiting(
            session_id=self.session_id,
            run_id=self.prompt.run_id,
            reason=f"{error.title}: {error.details}",
            until=self.services.clock.time() + wait_s,
            attempt=attempt,
            model=chosen.selected.model,
            provider=chosen.selected.provider,
        )
        await self.services.waits.wait(waiting, wait_s, turn=self.prompt.seq, guarded=self._guarded)

    async def other(self, selected: SelectedModel) -> Chosen:
        """Raises `BullpenError` when this model cannot be used."""
        return await choose(self.agent, selected)

    # Money

    @property
    def limits(self) -> budget.Limits:
        """What may be spent: the session's word, then the workspace's."""
        own = self.services.choices.of(self.prompt.session).budget
        said = own if isinstance(own, Budget) else Budget()
        usual = self.agent.settings.options.budget
        return budget.Limits(
            run=said.run or usual.run,
            session=said.session or usual.session,
            agent=self._allowance,
            day=usual.day,
            workspace=usual.workspace,
        )

    async def afford(self) -> None:
        """Raises `BudgetSpent` when the next call would be one too many."""
        await budget.afford(
            self.services.store,
            self.workspace,
            self.limits,
            turn=self.prompt.seq,
            root=self.prompt.session,
            session=self.session_id,
        )

    @property
    def payer(self) -> Payer:
        prompt = self.prompt
        return Payer(prompt.session, self.session_id, prompt.seq, prompt.author, prompt.client, self.tool)

    def note_asked(self, chosen: Chosen, request: ModelRequest) -> None:
        """The model is about to be asked: from here on its words are paid for, whatever cuts them short."""
        asked = asked_of(self.payer, chosen, request)
        self.write_ahead(lambda tx: ledger.note_asked(tx, self.workspace, asked))

    def note_broken(self, chosen: Chosen, request: ModelRequest, draft: Draft) -> None:
        """The answer broke off and is not gone on with; that of which nothing came costs nothing."""
        payer, workspace = self.payer, self.workspace
        if draft.is_empty:
            self.write_ahead(lambda tx: ledger.forget_asked(tx, workspace, payer.session, payer.turn))
            return
        usage = Usage(input=heard(request), output=said(draft.text, draft.thinking, draft.calls.values()))
        entry = entry_of(payer, chosen, usage, request.purpose, estimated=True)
        self.write_ahead(lambda tx: book(tx, workspace, entry))

    async def note_spent(
        self, tx: Tx, chosen: Chosen, usage: Usage, *, purpose: Purpose, estimated: bool
    ) -> None:
        await book(tx, self.workspace, entry_of(self.payer, chosen, usage, purpose, estimated=estimated))


def _look_at(ahead: asyncio.Future[None]) -> None:
    """A turn that ends otherwise may never come to wait for this; its failure is no news then."""
    if not ahead.cancelled():
        ahead.exception()
