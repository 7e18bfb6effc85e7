"""How a turn ends. Whatever ended it, one transaction stores and announces all of it.

A turn that runs to its end is finished by `finish_turn`. A turn that is cut short (cancelled by a person,
failed, interrupted by a crash) is closed by `close_turn`, from what is stored of it: the text so far stays,
calls without a result get one that says why, asks die with a notice, and there is one `run_complete`.
After either, `guard` refuses every later write of that turn.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from bullpen.engine.spending import book_rest
from bullpen.schema.events import RunComplete, RunSpent, agent_error, agent_finished
from bullpen.schema.message import (
    BORN_FINISHED,
    CANCELLED_BY_USER,
    Finish,
    FinishPart,
    FinishReason,
    Message,
    Part,
    ToolCall,
    ToolCallPart,
    ToolResult,
    ToolResultPart,
    new_message,
)
from bullpen.store import asks, ledger, log, messages, prompts, sessions, tool_calls, waits
from bullpen.store.prompts import Prompt
from bullpen.store.sessions import Spent
from bullpen.store.tx import Tx


class Cut(NamedTuple):
    """Why and how a turn is cut short. `error` goes into `run_complete`, title and details into the
    message; the three texts become the results of calls that have none. `code` is the error's, for programs."""

    state: prompts.State
    reason: FinishReason
    title: str
    details: str
    error: str
    cancelled: bool
    unfinished_call: str
    waiting_call: str
    running_call: str
    code: str = ""


CANCELLED = Cut(
    state="cancelled",
    reason="canceled",
    title=CANCELLED_BY_USER,
    details="",
    error="context canceled",
    cancelled=True,
    unfinished_call="Error: user cancelled assistant tool calling",
    waiting_call="context canceled",
    running_call="context canceled",
)

INTERRUPTED = Cut(
    state="interrupted",
    reason="error",
    title="Interrupted",
    details="The server stopped while this answer was being written. Send the prompt again to go on.",
    error="the server stopped while the turn was running",
    cancelled=False,
    unfinished_call="The server stopped before this call was complete; it was not run.",
    waiting_call="The server stopped before this call had a result.",
    running_call="The server stopped while this call was running: its outcome is unknown. Check before repeating it.",
    code="interrupted",
)

LOST = INTERRUPTED._replace(
    details="The disk failed and lost part of this answer. Send the prompt again to go on.",
    error="the disk failed and lost part of the turn",
    unfinished_call="The disk failed before this call was complete; it was not run.",
    waiting_call="The disk failed before this call had a result.",
    running_call="The disk failed while this call was running: its outcome is unknown. Check before repeating it.",
)


def failed(title: str, details: str, *, code: str = "error") -> Cut:
    text = "There was an error while executing the tool"
    return Cut(
        state="failed",
        reason="error",
        title=title,
        details=details,
        error=details or title,
        cancelled=False,
        unfinished_call=text,
        waiting_call=text,
        running_call=text,
        code=code,
    )


async def close_turn(tx: Tx, workspace: str, prompt: Prompt, cut: Cut) -> None:
    """End an active turn from what is stored of it."""
    await asks.close_turn(tx, workspace, prompt.seq)
    await waits.end_turn(tx, workspace, prompt.seq)
    last: Message | None = None
    for message in await messages.open_of_turn(tx, workspace, prompt.seq):
        await book_rest(tx, workspace, prompt.seq, message)
        closed = await _close_message(tx, workspace, message, cut)
        if message.session_id == prompt.session:
            last = closed
        else:
            await _complete_child(tx, workspace, closed, cut)
    await prompts.end(tx, workspace, prompt.seq, cut.state)
    if prompt.kind == "prompt":
        if last is not None and last.finish is None:  # A summary that was not finished is gone.
            last = None
        if last is None and await sessions.exists(tx, workspace, prompt.session):
            last = await insert_cut_answer(tx, workspace, prompt.session, cut)
        await _complete(tx, workspace, prompt, last, cut)
    await sessions.announce(tx, workspace, prompt.session)


async def close_child(tx: Tx, workspace: str, turn: int, session: str, cut: Cut) -> None:
    """A sub-agent is over before its end; the turn it worked for goes on."""
    await asks.close_turn(tx, workspace, turn, session=session)
    await waits.end(tx, workspace, session)
    for message in await messages.open_of_turn(tx, workspace, turn):
        if message.session_id == session:
            await book_rest(tx, workspace, turn, message)
            await _complete_child(tx, workspace, await _close_message(tx, workspace, message, cut), cut)


async def drop(tx: Tx, workspace: str, prompt: Prompt) -> None:
    """A prompt that waited leaves the queue without a trace but its completion."""
    await prompts.end(tx, workspace, prompt.seq, "cancelled")
    if prompt.kind == "prompt":
        done = RunComplete(session_id=prompt.session, run_id=prompt.run_id, message_id="", cancelled=True)
        await log.append(tx, workspace, done, "updated", key=str(prompt.seq))


async def refuse(tx: Tx, workspace: str, prompt: Prompt, why: str, code: str = "error") -> None:
    """A prompt that cannot begin ends with an error and leaves no rows."""
    await prompts.end(tx, workspace, prompt.seq, "failed")
    if prompt.queued:
        await prompts.queue_changed(tx, workspace, prompt.session)
    if prompt.kind == "prompt":
        error = agent_error(prompt.session, prompt.run_id, why)
        await log.append(tx, workspace, error, "created", key=prompt.session)
        done = RunComplete(
            session_id=prompt.session, run_id=prompt.run_id, message_id="", error=why, code=code
        )
        await log.append(tx, workspace, done, "updated", key=str(prompt.seq))


async def abandon_turn(tx: Tx, workspace: str, prompt: Prompt, why: str) -> None:
    """End an active turn without a look at what is stored of it: its open messages keep nothing but this end."""
    cut = failed("Quarantined", why, code="quarantined")
    await ledger.forget_turn(tx, workspace, prompt.seq)
    await asks.close_turn(tx, workspace, prompt.seq)
    await waits.end_turn(tx, workspace, prompt.seq)
    last: Message | None = None
    for message_id, session in await messages.open_ids(tx, workspace, prompt.seq):
        blank = msgspec.structs.replace(new_message("assistant", session, (), tx.now), id=message_id)
        closed = blank.with_parts((_finish(tx, cut),), tx.now)
        await messages.rewrite(tx, workspace, closed)
        last = closed if session == prompt.session else last
    await prompts.end(tx, workspace, prompt.seq, cut.state)
    if prompt.kind == "prompt":
        await _complete(tx, workspace, prompt, last, cut)


async def finish_turn(tx: Tx, workspace: str, prompt: Prompt, answer: Message, spent: Spent) -> None:
    """The normal end: `answer` is the last message, whole and finished."""
    folded = await prompts.folded_into(tx, workspace, prompt.seq)
    for _, session_id in await messages.open_ids(tx, workspace, prompt.seq):
        if session_id != prompt.session:  # A sub-agent's, when the store refused its own end.
            cut = failed("Sub-agent failed", "Its end was not stored.")
            await close_child(tx, workspace, prompt.seq, session_id, cut)
    await prompts.end(tx, workspace, prompt.seq, "done")
    session = await sessions.add_usage(tx, workspace, prompt.session, spent)
    await messages.rewrite(tx, workspace, answer)
    await log.append(
        tx, workspace, agent_finished(prompt.session, session.title), "created", key=prompt.session
    )
    done = RunComplete(
        session_id=prompt.session,
        run_id=prompt.run_id,
        message_id=answer.id,
        text=answer.text,
        run_ids=tuple(p.run_id for p in folded),
        spent=await _spent(tx, workspace, prompt),
    )
    await log.append(tx, workspace, done, "updated", key=str(prompt.seq))


async def finish_child(tx: Tx, workspace: str, answer: Message, spent: Spent) -> None:
    await sessions.add_usage(tx, workspace, answer.session_id, spent)
    await messages.rewrite(tx, workspace, answer)
    done = RunComplete(session_id=answer.session_id, message_id=answer.id, text=answer.text)
    await log.append(tx, workspace, done, "updated", key=answer.session_id)


async def insert_cut_answer(tx: Tx, workspace: str, session: str, cut: Cut) -> Message:
    """An assistant message that never got to say anything, seen to begin and to end."""
    message = new_message("assistant", session, (), tx.now)
    await messages.insert(tx, workspace, message)
    message = message.with_parts((_finish(tx, cut),), tx.now)
    await messages.rewrite(tx, workspace, message)
    return message


def tool_message(session: str, result: ToolResult, now: int) -> Message:
    return new_message("tool", session, (ToolResultPart(data=result), BORN_FINISHED), now)


async def _close_message(tx: Tx, workspace: str, message: Message, cut: Cut) -> Message:
    if message.is_summary_message and cut.cancelled:
        await messages.delete(tx, workspace, message)
        return message
    answered = await messages.answered_calls(tx, workspace, message.session_id, message.id)
    intended = await asks.intended(tx, message.id)
    for call in message.tool_calls:
        if call.id not in answered:
            result = ToolResult(
                tool_call_id=call.id,
                name=call.name,
                content=_why(call, intended, cut),
                metadata="",
                is_error=True,
            )
            told = tool_message(message.session_id, result, tx.now)
            await messages.insert(tx, workspace, told)
            await tool_calls.add(tx, workspace, told.id, call.name, failed=True)
        await asks.fulfil(tx, message.id, call.id)
    closed = message.with_parts((*map(_closed_part, message.parts), _finish(tx, cut)), tx.now)
    await messages.rewrite(tx, workspace, closed)
    return closed


def _why(call: ToolCall, intended: set[str], cut: Cut) -> str:
    if not call.finished:
        return cut.unfinished_call
    return cut.running_call if call.id in intended else cut.waiting_call


def _closed_part(part: Part) -> Part:
    if isinstance(part, ToolCallPart) and not part.data.finished:
        return ToolCallPart(data=msgspec.structs.replace(part.data, input="{}", finished=True))
    return part


def _finish(tx: Tx, cut: Cut) -> FinishPart:
    return FinishPart(data=Finish(reason=cut.reason, time=tx.now, message=cut.title, details=cut.details))


async def _complete(tx: Tx, workspace: str, prompt: Prompt, answer: Message | None, cut: Cut) -> None:
    if not cut.cancelled:
        error = agent_error(prompt.session, prompt.run_id, cut.error)
        await log.append(tx, workspace, error, "created", key=prompt.session)
    folded = await prompts.folded_into(tx, workspace, prompt.seq)
    done = RunComplete(
        session_id=prompt.session,
        run_id=prompt.run_id,
        message_id=answer.id if answer else "",
        text=answer.text if answer else "",
        error=cut.error,
        cancelled=cut.cancelled,
        run_ids=tuple(p.run_id for p in folded),
        code=cut.code,
        spent=await _spent(tx, workspace, prompt),
    )
    await log.append(tx, workspace, done, "updated", key=str(prompt.seq))


async def _spent(tx: Tx, workspace: str, prompt: Prompt) -> RunSpent | UnsetType:
    """Nothing where no model was asked."""
    spent = await ledger.sum_of_turn(tx, workspace, prompt.session, prompt.seq)
    return spent if spent.calls else UNSET


async def _complete_child(tx: Tx, workspace: str, answer: Message, cut: Cut) -> None:
    done = RunComplete(
        session_id=answer.session_id,
        message_id=answer.id,
        text=answer.text,
        error=cut.error,
        cancelled=cut.cancelled,
    )
    await log.append(tx, workspace, done, "updated", key=answer.session_id)
