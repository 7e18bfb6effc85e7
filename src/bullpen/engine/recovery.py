"""After a crash: before anybody reads the store, every turn that was running gets its end.

The turn is not resumed: a model call may be repeated, the effect of a tool may not. Prompts that were only
accepted stay so and run when their workspace is next opened.
"""

from __future__ import annotations

import logging

from bullpen.engine.endings import INTERRUPTED, close_turn
from bullpen.store import prompts
from bullpen.store.store import Store
from bullpen.store.tx import Tx

log = logging.getLogger("bullpen.engine")


async def recover(store: Store, only: str | None = None) -> int:
    """Close what a crash left open, everywhere or in one workspace; gives back how many turns that were."""

    async def work(tx: Tx) -> int:
        rows = await tx.rows("SELECT DISTINCT workspace FROM prompts WHERE state = 'active'")
        count = 0
        for (workspace,) in rows:
            if only not in (None, workspace):
                continue
            for prompt in await prompts.all_active(tx, workspace):
                await close_turn(tx, workspace, prompt, INTERRUPTED)
                count += 1
        return count

    count = await store.write(work, reserved=True)
    if count:
        log.warning("%d turns were interrupted by the last stop and are closed now", count)
    return count
