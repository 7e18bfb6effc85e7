"""One model answer: the stream becomes a growing message; a broken stream is tried again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import NamedTuple, assert_never

from bullpen.engine.active import Active
from bullpen.engine.draft import Draft
from bullpen.engine.retry import Refusals
from bullpen.engine.services import Chosen
from bullpen.engine.spending import heard, said
from bullpen.errors import BullpenError, ProviderError, StoreError
from bullpen.providers.base import (
    LoginBegun,
    LoginEnded,
    ModelRequest,
    ReasoningDelta,
    ReasoningDone,
    StepDone,
    TextDelta,
    ToolCallDone,
    ToolCallStarted,
    Usage,
)
from bullpen.schema.events import login_begun, login_ended
from bullpen.schema.message import FinishReason
from bullpen.store.sessions import Spent
from bullpen.system.failpoints import hit


@contextmanager
def no_stray_cancel(error: Exception) -> Iterator[None]:
    """What comes from outside may raise `CancelledError` although nobody cancelled us: that is an `error`.

    Let through, it would end the task in silence, and the turn would stay open for ever."""
    try:
        yield
    except asyncio.CancelledError as exc:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise error from exc


log = logging.getLogger("bullpen.engine")


class Answer(NamedTuple):
    """`chosen` is who answered in the end. Without counts from the vendor they are `estimated`."""

    reason: FinishReason
    usage: Usage
    spent: Spent
    chosen: Chosen
    estimated: bool


async def stream_answer(
    active: Active, chosen: Chosen, request: Callable[[Chosen], ModelRequest], draft: Draft
) -> Answer:
    """Fill the draft from the model. Raises `ProviderError` when it cannot be had; what was said by then is
    stored. Raises `BudgetSpent`."""
    refusals = Refusals(active.policy, active.services.jitter)
    while True:
        await active.afford()
        asked = request(chosen)
        active.note_asked(chosen, asked)
        try:
            with no_stray_cancel(ProviderError("the model's side gave up by itself")):
                return await _stream_once(active, chosen, asked, draft)
        except ProviderError as exc:
            error = exc
        active.note_broken(chosen, asked, draft)
        step = refusals.after(error)
        if step is None:
            with suppress(StoreError):
                await active.settle(draft)
            raise error
        active.services.tally["provider_retries"] += 1
        draft.clear()
        if step.model is None:
            await active.settle(draft)
            await active.wait(error, step.wait_s, refusals.count, chosen)
            continue
        try:
            chosen = await active.other(step.model)
            draft.speak_as(chosen.selected)
        except BullpenError as exc:
            log.warning("the model %s cannot stand in: %s", step.model.model, exc)
        await active.settle(draft)


async def _stream_once(active: Active, chosen: Chosen, request: ModelRequest, draft: Draft) -> Answer:
    services, settle = active.services, active.settle
    grow = services.store.growth.add
    answer: Answer | None = None
    hit("model-asked")
    async with aclosing(chosen.provider.stream(request)) as events:
        # To the very end, past the last event: then the connection is free for the next step.
        async for event in events:
            if draft.is_thinking and not isinstance(event, ReasoningDelta | ReasoningDone):
                draft.stop_thinking(services.now)
                await settle(draft)
            match event:
                case TextDelta(text):
                    if text := draft.say(text):
                        grow(draft.open, "text", text)
                case ReasoningDelta(text):
                    draft.think(text, services.now)
                    grow(draft.open, "reasoning", text)
                case ReasoningDone(signature):
                    draft.stop_thinking(services.now, signature)
                    await settle(draft)
                case ToolCallStarted(call_id, name):
                    draft.begin_call(call_id, name)
                    await settle(draft)
                case ToolCallDone(call_id, name, arguments):
                    draft.complete_call(call_id, name, arguments)
                    await settle(draft)
                case LoginBegun(command, url):
                    active.tell(login_begun(active.session_id, active.prompt.run_id, command, url))
                case LoginEnded(command, error):
                    active.tell(login_ended(active.session_id, active.prompt.run_id, command, error))
                case StepDone(reason, usage, native):
                    if reason == "max_tokens":
                        draft.distrust_guesses()
                    if draft.break_off_calls():
                        await settle(draft)
                    elif not draft.broken:
                        draft.native = native
                    answer = answered(chosen, request, draft, reason, usage)
                case _:
                    assert_never(event)
    if answer is not None:
        return answer
    raise ProviderError("the model's answer ended early", title="Stream Transport Error", retryable=True)


def answered(
    chosen: Chosen, request: ModelRequest, draft: Draft, reason: FinishReason, usage: Usage | None
) -> Answer:
    """The answer with its counts; a vendor that counts nothing is counted for."""
    counted = usage is not None and (usage.input or usage.output or usage.cache_read or usage.cache_write)
    if usage is None or not counted:
        usage = Usage(input=heard(request), output=said(draft.text, draft.thinking, draft.calls.values()))
    spent = Spent(usage.input + usage.cache_read + usage.cache_write, usage.output)
    return Answer(reason, usage, spent, chosen, not counted)
