"""How a turn begins. One transaction takes the prompt out of the queue, stores its message and those of the prompts that
join it, and opens an empty answer.

`fold` and `open_answer` also begin every further step of a turn, `insert_user_message` and `open_answer` a sub-agent.
"""

from __future__ import annotations

from typing import NamedTuple

from bullpen.engine import endings
from bullpen.engine.draft import Draft
from bullpen.engine.services import Chosen
from bullpen.errors import BullpenError, SessionNotFound
from bullpen.schema.message import Message, new_message, user_parts
from bullpen.schema.session import Session
from bullpen.store import messages, prompts, sessions
from bullpen.store.growth import OpenMessage
from bullpen.store.prompts import Prompt
from bullpen.store.tx import Tx


class Begun(NamedTuple):
    """A prompt taken out of the queue. `draft` is set when its turn has begun, `error` when it failed at once."""

    prompt: Prompt
    session: Session | None = None
    draft: Draft | None = None
    error: Exception | None = None


async def begin_turn(tx: Tx, workspace: str, session_id: str, chosen: Chosen) -> Begun | None:
    """Give the next waiting prompt its turn: its message, those that join it, and an empty answer."""
    waiting = await prompts.waiting(tx, workspace, session_id)
    if not waiting:
        return None
    prompt = waiting[0]
    if not await sessions.exists(tx, workspace, session_id):
        return await _fail_prompt(tx, workspace, prompt, SessionNotFound(session_id))
    session = await sessions.get(tx, workspace, session_id)
    await prompts.activate(tx, workspace, prompt.seq, prompt.seq)
    if prompt.queued:
        await prompts.queue_changed(tx, workspace, session_id)
    if prompt.kind == "prompt":
        await insert_user_message(tx, workspace, prompt)
        if prompt.folds:
            await fold(tx, workspace, prompt.seq, session_id)
    await sessions.announce(tx, workspace, session_id)
    is_summary = prompt.kind == "summary"
    draft = await open_answer(tx, workspace, session_id, prompt.seq, chosen, summary=is_summary)
    return Begun(prompt, session, draft)


async def fail_next(tx: Tx, workspace: str, session: str, error: Exception) -> Begun | None:
    """The next waiting prompt cannot have a turn: it ends with this error."""
    waiting = await prompts.waiting(tx, workspace, session)
    return await _fail_prompt(tx, workspace, waiting[0], error) if waiting else None


async def fold(tx: Tx, workspace: str, turn: int, session_id: str) -> list[Message]:
    """Take the prompts that may join this turn out of the session's queue and into the conversation.

    Only those before the first one that wants a turn of its own: nobody overtakes."""
    joined: list[Message] = []
    for waiting in await prompts.waiting(tx, workspace, session_id):
        if not waiting.folds:
            break
        await prompts.activate(tx, workspace, waiting.seq, turn)
        joined.append(await insert_user_message(tx, workspace, waiting))
    if joined:
        await prompts.queue_changed(tx, workspace, session_id)
    return joined


async def insert_user_message(tx: Tx, workspace: str, prompt: Prompt) -> Message:
    parts = user_parts(prompt.text, prompt.attachments)
    message = new_message("user", prompt.session, parts, tx.now, author=prompt.author)
    await messages.insert(tx, workspace, message)
    return message


async def open_answer(
    tx: Tx, workspace: str, session_id: str, turn: int, chosen: Chosen, *, summary: bool = False
) -> Draft:
    """An empty assistant message, announced and ready to grow."""
    selected = chosen.selected
    message = new_message(
        "assistant",
        session_id,
        (),
        tx.now,
        model=selected.model,
        provider=selected.provider,
        is_summary=summary,
    )
    open_message = OpenMessage(workspace, message, turn)
    await messages.insert(tx, workspace, message, turn=turn, live=open_message)
    return Draft(message, open_message)


async def _fail_prompt(tx: Tx, workspace: str, prompt: Prompt, error: Exception) -> Begun:
    code = error.code if isinstance(error, BullpenError) else "internal"
    await endings.refuse(tx, workspace, prompt, str(error) or type(error).__name__, code)
    return Begun(prompt, error=error)
