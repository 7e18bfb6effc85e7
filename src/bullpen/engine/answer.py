"""One model answer: the stream becomes a growing message; a broken stream is tried again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import NamedTuple, assert_never

import anyio

from bullpen.engine.draft import Draft
from bullpen.engine.services import Chosen, Services
from bullpen.errors import ProviderError
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

TRIES = 5
RETRY_BASE_S = 1.0
RETRY_LONGEST_S = 60.0
"""Waits of 1, 2, 4, 8 s with some jitter ride out a restart or a rate limit; a longer Retry-After than
this is reported instead of waited for."""

Settle = Callable[[Draft], Awaitable[None]]
"""Store the draft whole. Raises `TurnCancelled` when its turn is over."""


class Answer(NamedTuple):
    reason: FinishReason
    spent: Spent


async def stream_answer(
    services: Services, chosen: Chosen, request: ModelRequest, draft: Draft, settle: Settle
) -> Answer:
    """Fill the draft from the model. Raises `ProviderError` when it cannot be had."""
    for attempt in range(1, TRIES + 1):
        try:
            return await _stream_once(services, chosen, request, draft, settle)
        except ProviderError as exc:
            wait = _wait_before_retry(services, exc, attempt)
            if wait is None:
                raise
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
    stream = chosen.provider.stream(request)
    async with aclosing(stream) as events:
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
                    return Answer(reason, spent_on(chosen, usage))
                case _:
                    assert_never(event)
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
