"""After a crash: what was running gets its end, what waits is taken up, and nothing brings the server down for ever.

Before anybody reads the store, every turn that was running is closed. It is not resumed: a model call may be
repeated, the effect of a tool may not. Prompts that were only accepted run when their workspace is next opened.

Each try at a prompt is counted in a commit of its own before it is made: the acceptance is the first try at
beginning it; a turn's beginning is the first try at ending it. After ATTEMPTS tries that the server did not survive
the prompt is quarantined: it ends with an error, and what is stored of it is not looked at again.
"""

from __future__ import annotations

import asyncio
import logging

from bullpen.engine.endings import INTERRUPTED, abandon_turn, close_turn, refuse
from bullpen.errors import StoreError
from bullpen.store import prompts
from bullpen.store.prompts import Prompt
from bullpen.store.store import Store
from bullpen.store.tx import Tx
from bullpen.system.failpoints import hit

log = logging.getLogger("bullpen.engine")

ATTEMPTS = 3
"""Once may be bad luck, twice the same bad luck; a third time the prompt is to blame."""

QUARANTINED = f"quarantined: the server went down {ATTEMPTS} times with this prompt, so it is not tried again"


async def recover(store: Store, only: str | None = None) -> int:
    """Close what a crash left open, everywhere or in one workspace; gives back how many turns that were."""
    found = await store.read(lambda tx: _left_active(tx, only))
    if not found:
        return 0
    await store.write(lambda tx: _count(tx, found), reserved=True)
    hit("recovery-begun")
    # Each is a unit of its own, all in one commit: one that cannot be closed does not hold up the others.
    await asyncio.gather(*(_end(store, workspace, prompt) for workspace, prompt in found))
    hit("recovery-done")
    log.warning("%d turns were interrupted by the last stop and are closed now", len(found))
    return len(found)


async def take_up(store: Store, workspace: str) -> None:
    """Before what waits in a workspace runs: count the try, and quarantine what has had enough of them."""
    if await store.read(lambda tx: prompts.sessions_waiting(tx, workspace)):
        await store.write(lambda tx: _take_up(tx, workspace))
        hit("queue-taken-up")


async def _left_active(tx: Tx, only: str | None) -> list[tuple[str, Prompt]]:
    rows = await tx.rows("SELECT DISTINCT workspace FROM prompts WHERE state = 'active'")
    workspaces = [row[0] for row in rows if only in (None, row[0])]
    return [(workspace, p) for workspace in workspaces for p in await prompts.all_active(tx, workspace)]


async def _count(tx: Tx, found: list[tuple[str, Prompt]]) -> None:
    for workspace, prompt in found:
        await prompts.count_attempt(tx, workspace, prompt.seq)


async def _end(store: Store, workspace: str, prompt: Prompt) -> None:
    if prompt.attempts < ATTEMPTS:
        try:
            await store.write(lambda tx: _interrupt(tx, workspace, prompt), reserved=True)
            return
        except StoreError:
            raise
        except Exception:
            log.exception("turn %d cannot be closed from what is stored of it", prompt.seq)
    await store.write(lambda tx: abandon_turn(tx, workspace, prompt, QUARANTINED), reserved=True)


async def _interrupt(tx: Tx, workspace: str, prompt: Prompt) -> None:
    hit("turn-recovering")
    await close_turn(tx, workspace, prompt, INTERRUPTED)


async def _take_up(tx: Tx, workspace: str) -> None:
    """Counted are those that are to begin now: each session's first, and who would join it."""
    for session in await prompts.sessions_waiting(tx, workspace):
        first: Prompt | None = None
        for prompt in await prompts.waiting(tx, workspace, session):
            if prompt.attempts >= ATTEMPTS:
                await refuse(tx, workspace, prompt, QUARANTINED, "quarantined")
            elif first is None or (first.folds and prompt.folds):
                await prompts.count_attempt(tx, workspace, prompt.seq)
                first = first or prompt
            else:
                break
