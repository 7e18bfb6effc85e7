"""The queue of a session: accept, list, edit, withdraw, clear, cancel. Each is one transaction.

A cancel covers exactly what was accepted before it. It ends the active turn, drops what waits behind it,
and lets a prompt that had not begun yet leave a cancelled turn behind; a prompt accepted afterwards is
untouched, because its row does not exist yet.
"""

from __future__ import annotations

import uuid
from typing import NamedTuple

from bullpen.engine.beginnings import insert_user_message
from bullpen.engine.endings import CANCELLED, close_turn, drop, insert_cut_answer
from bullpen.errors import PromptNotFound, SessionBusy, SessionNotFound
from bullpen.schema.agent import QueuedPrompt
from bullpen.schema.api import QueueEdit
from bullpen.schema.events import RunComplete
from bullpen.store import asks, log, prompts, rules, sessions, trash
from bullpen.store.prompts import Prompt
from bullpen.store.tx import Tx


class Cancelled(NamedTuple):
    """What a cancel did: the prompts it ended, as session and number, and the texts it took from the queue; what a deletion did
    beside: the sessions that are gone."""

    ended: tuple[tuple[str, int], ...] = ()
    dropped: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


async def cancel(tx: Tx, workspace: str, session: str) -> Cancelled:
    active = await prompts.active(tx, workspace, session)
    waiting = await prompts.waiting(tx, workspace, session)
    begun_next = waiting.pop(0) if active is None and waiting else None
    for prompt in waiting:
        await drop(tx, workspace, prompt)
    if begun_next is not None:
        await _cancel_on_entry(tx, workspace, begun_next)
    if waiting or (begun_next is not None and begun_next.queued):
        await prompts.queue_changed(tx, workspace, session)
    if active is not None:
        await close_turn(tx, workspace, active, CANCELLED)
    ended = [prompt for prompt in (active, begun_next, *waiting) if prompt is not None]
    return Cancelled(
        tuple((session, prompt.seq) for prompt in ended),
        tuple(p.text for p in waiting if p.kind == "prompt"),
    )


async def clear(tx: Tx, workspace: str, session: str) -> tuple[str, ...]:
    """Drop what waits behind the turn that runs or is about to."""
    active = await prompts.active(tx, workspace, session)
    waiting = await prompts.waiting(tx, workspace, session)
    if active is None:
        waiting = waiting[1:]
    waiting = [prompt for prompt in waiting if prompt.kind == "prompt"]
    for prompt in waiting:
        await drop(tx, workspace, prompt)
    if waiting:
        await prompts.queue_changed(tx, workspace, session)
    return tuple(p.text for p in waiting)


async def withdraw(tx: Tx, workspace: str, session: str, seq: int) -> None:
    """Raises `PromptNotFound` when the prompt no longer waits."""
    prompt = await _waiting(tx, workspace, session, seq)
    await drop(tx, workspace, prompt)
    await prompts.queue_changed(tx, workspace, session)


async def edit(tx: Tx, workspace: str, session: str, seq: int, change: QueueEdit) -> QueuedPrompt:
    """A new text, a new place, or both. Raises `PromptNotFound` when the prompt no longer waits."""
    prompt = await _waiting(tx, workspace, session, seq)
    if change.prompt is not None:
        await prompts.edit(tx, workspace, seq, change.prompt)
    if change.index is not None:
        await prompts.move(tx, workspace, prompt, change.index)
    await prompts.queue_changed(tx, workspace, session)
    return prompts.queued(await _waiting(tx, workspace, session, seq))


async def listed(tx: Tx, workspace: str, session: str) -> list[QueuedPrompt]:
    return [prompts.queued(p) for p in await prompts.waiting(tx, workspace, session) if p.kind == "prompt"]


async def accept_summary(tx: Tx, workspace: str, session: str) -> int:
    """Queue a summary; 0 when the session has nothing to summarise. Raises `SessionBusy`."""
    if await prompts.is_busy(tx, workspace, session):
        raise SessionBusy(session)
    if not await sessions.exists(tx, workspace, session):
        raise SessionNotFound(session)
    if (await sessions.get(tx, workspace, session)).message_count == 0:
        return 0
    row = prompts.NewRow(session=session, text="", run_id=str(uuid.uuid4()), own_run_id=True, kind="summary")
    return (await prompts.accept(tx, workspace, row))[0]


async def delete_session(
    tx: Tx, workspace: str, session: str, *, for_good: bool = False, by: str = ""
) -> Cancelled:
    """Stop what runs in the session, then throw it away with those of its sub-agents: into the trash, or for good.

    A sub-agent's alone is gone for good: it may be in the middle of something, and the trash keeps whole conversations.
    """
    is_part = bool((await sessions.get(tx, workspace, session)).parent_session_id)
    return await _delete(tx, workspace, session, for_good=for_good or is_part, is_top=True, by=by)


async def _delete(
    tx: Tx, workspace: str, session: str, *, for_good: bool, is_top: bool, by: str
) -> Cancelled:
    await sessions.get(tx, workspace, session)
    cancelled = await cancel(tx, workspace, session)
    for child in await sessions.children(tx, workspace, session):
        below = await _delete(tx, workspace, child, for_good=for_good, is_top=False, by=by)
        cancelled = Cancelled(
            cancelled.ended + below.ended,
            cancelled.dropped + below.dropped,
            cancelled.deleted + below.deleted,
        )
    await asks.forget_session(tx, workspace, session)
    await rules.forget_session(tx, workspace, session)
    if for_good:
        await trash.forget_rows(tx, workspace, session)
        await prompts.forget_session(tx, workspace, session)
        await sessions.delete(tx, workspace, session, by)
    else:
        gone = await sessions.get(tx, workspace, session)
        await trash.throw_away(tx, workspace, session, is_top=is_top)
        await sessions.disappear(tx, workspace, gone, by)
    return cancelled._replace(deleted=(*cancelled.deleted, session))


async def _cancel_on_entry(tx: Tx, workspace: str, prompt: Prompt) -> None:
    """The session's next prompt, accepted but not begun: its turn is stored as cancelled."""
    await prompts.end(tx, workspace, prompt.seq, "cancelled")
    if prompt.kind != "prompt":
        return
    if await sessions.exists(tx, workspace, prompt.session):
        await insert_user_message(tx, workspace, prompt)
        await insert_cut_answer(tx, workspace, prompt.session, CANCELLED)
    done = RunComplete(session_id=prompt.session, run_id=prompt.run_id, message_id="", cancelled=True)
    await log.append(tx, workspace, done, "updated", key=str(prompt.seq))
    await sessions.announce(tx, workspace, prompt.session)


async def _waiting(tx: Tx, workspace: str, session: str, seq: int) -> Prompt:
    prompt = await prompts.get(tx, workspace, seq)
    if prompt is None or (prompt.session, prompt.state, prompt.kind) != (session, "accepted", "prompt"):
        raise PromptNotFound(seq)
    return prompt
