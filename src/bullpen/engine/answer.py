"""One model answer: the stream becomes a growing message; a broken stream is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import NamedTuple, assert_never

import anyio

from bullpen.engine.draft import Draft
from bullpen.engine.services import Chosen, Services
from bullpen.errors import ProviderError, StoreError
from bullpen.providers.base import (
    ModelRequest,
    ReasoningDelta,
    ReasoningDone,
    StepDone,
    TextDelta,
    ToolCallDone,
    ToolCallStarted,
    Usage,
)
from bullpen.schema.message import FinishReason
from bullpen.store.sessions import Spent
from bullpen.system.failpoints import hit

TRIES = 5
RETRY_BASE_S = 1.0
RETRY_LONGEST_S = 60.0
"""Waits of 1, 2, 4, 8 s with some jitter ride out a restart or a rate limit; a longer Retry-After than
this is reported instead of waited for."""


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


Settle = Callable[[Draft], Awaitable[None]]
"""Store the draft whole. Raises `TurnCancelled` when its turn is over."""


class Answer(NamedTuple):
    reason: FinishReason
    spent: Spent


async def stream_answer(
    services: Services, chosen: Chosen, request: ModelRequest, draft: Draft, settle: Settle
) -> Answer:
    """Fill the draft from the model. Raises `ProviderError` when it cannot be had; what was said by then is
    stored."""
    for attempt in range(1, TRIES + 1):
        try:
            with no_stray_cancel(ProviderError("the model's side gave up by itself")):
                return await _stream_once(services, chosen, request, draft, settle)
        except ProviderError as exc:
            wait = _wait_before_retry(services, exc, attempt)
            if wait is None:
                with suppress(StoreError):
                    await settle(draft)
                raise
        services.tally["provider_retries"] += 1
        draft.clear()
        await settle(draft)
        await anyio.sleep(wait)
    raise AssertionError("the last try returns or raises")


def _wait_before_retry(services: Services, error: ProviderError, attempt: int) -> float | None:
    if not error.retryable or attempt == TRIES:
        return None
    if error.retry_after_s is not None:
        return error.retry_after_s if error.retry_after_s <= RETRY_LONGEST_S else None
    return RETRY_BASE_S * 2.0 ** (attempt - 1) * (1 + services.jitter() / 4)


async def _stream_once(
    services: Services, chosen: Chosen, request: ModelRequest, draft: Draft, settle: Settle
) -> Answer:
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
                case StepDone(reason, usage):
                    if draft.break_off_calls():
                        await settle(draft)
                    answer = Answer(reason, spent_on(chosen, usage))
                case _:
                    assert_never(event)
    if answer is not None:
        return answer
    raise ProviderError("the model's answer ended early", title="Stream Transport Error", retryable=True)


def spent_on(chosen: Chosen, usage: Usage) -> Spent:
    model = chosen.model
    cost = (
        usage.input * model.cost_per_1m_in
        + usage.output * model.cost_per_1m_out
        + usage.cache_write * model.cost_per_1m_in_cached
        + usage.cache_read * model.cost_per_1m_out_cached
    ) / 1_000_000
    prompt = usage.input + usage.cache_read + usage.cache_write
    return Spent(prompt, usage.output, 0.0 if chosen.flat_rate else cost)
