"""May the next model call be made? Asked before each, over a session and all its sub-agents."""

from __future__ import annotations

from typing import NamedTuple

from bullpen.errors import BudgetSpent
from bullpen.store import ledger
from bullpen.store.store import Store
from bullpen.store.tx import Tx


class Limits(NamedTuple):
    """Dollars; 0 is no limit. `agent` is what one sub-agent may spend, `day` and `workspace` are for all sessions together."""

    run: float = 0.0
    session: float = 0.0
    agent: float = 0.0
    day: float = 0.0
    workspace: float = 0.0


async def afford(store: Store, workspace: str, limits: Limits, *, turn: int, root: str, session: str) -> None:
    """Raises `BudgetSpent` when a limit is reached."""
    if not any(limits):
        return

    async def work(tx: Tx) -> None:
        if limits.run:
            _check("run", limits.run, await ledger.spent_in_turn(tx, workspace, root, turn))
        if limits.session:
            _check("session", limits.session, await ledger.spent_in_session(tx, workspace, root))
        if limits.agent:
            spent = await ledger.spent_by_agent(tx, workspace, root, session)
            _check("sub-agent", limits.agent, spent)
        if limits.day:
            today = tx.now - tx.now % ledger.DAY_S
            _check("day", limits.day, await ledger.spent_since(tx, workspace, today))
        if limits.workspace:
            _check("workspace", limits.workspace, await ledger.spent_since(tx, workspace, 0))

    await store.read(work)


def _check(what: str, limit: float, spent: float) -> None:
    if spent >= limit:
        raise BudgetSpent(what, limit, spent)
