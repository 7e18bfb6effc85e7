"""What to do when a model's host refuses: ask again, wait, take another model, or give up.

    refused ──▶ wait ──▶ asked again           up to TRIES times, seconds each
            ──▶ another model, asked at once   policy `switch`, while the list lasts
            ──▶ wait for the stated reset      policy `wait`, or `switch` with its list used up; as often as it takes
            ──▶ the turn fails                 everything else

A wait is a row and an event, so everybody sees until when and why. It ends by itself, by anybody's word (`Waits.end`),
or with the turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, TypeVar

import anyio

from bullpen.errors import ProviderError, StoreError, TurnCancelled
from bullpen.schema.agent import SelectedModel
from bullpen.schema.choices import Policy
from bullpen.schema.events import RunWaiting
from bullpen.store import waits
from bullpen.store.store import Store
from bullpen.store.tx import Work

T = TypeVar("T")

TRIES = 5
RETRY_BASE_S = 1.0
RETRY_LONGEST_S = 60.0
"""Waits of 1, 2, 4, 8 s with some jitter ride out a restart or a rate limit; a longer Retry-After than
this is reported instead of waited for, unless the policy says to wait."""

BACK_OFF_BASE_S = 30.0
BACK_OFF_LONGEST_S = 900.0
"""At a limit whose end nobody knows: often enough to go on soon, seldom enough not to make it worse."""

LIMITED = frozenset({402, 429, 529})
"""Too many requests, too many tokens, or no money left: asking somewhere else helps."""


class Step(NamedTuple):
    """What comes after a refusal: a wait, or another model at once."""

    wait_s: float = 0.0
    model: SelectedModel | None = None


class Refusals:
    """The refusals of one step, and what the policy makes of each."""

    def __init__(self, policy: Policy, jitter: Callable[[], float]) -> None:
        self._policy = policy
        self._jitter = jitter
        self._others: Iterator[SelectedModel] = iter(policy.models if policy.on_limit == "switch" else ())
        self.count = 0
        self._waited_s = 0.0
        self._backed_off = 0

    def after(self, error: ProviderError) -> Step | None:
        """None: the turn fails with the error."""
        self.count += 1
        stated = error.retry_after_s
        is_limit = error.kind in ("limit", "overloaded") or error.status in LIMITED
        if is_limit and (other := next(self._others, None)) is not None:
            self.count = 0
            return Step(model=other)
        if error.retryable and self.count < TRIES and (stated is None or stated <= RETRY_LONGEST_S):
            return Step(
                stated if stated is not None else self._spread(RETRY_BASE_S * 2.0 ** (self.count - 1))
            )
        if not is_limit or self._policy.on_limit == "stop":
            return None
        wait_s = stated if stated is not None else self._back_off()
        if self._waited_s + wait_s > self._policy.longest_wait_s:
            return None
        self._waited_s += wait_s
        return Step(wait_s)

    def _back_off(self) -> float:
        self._backed_off += 1
        return self._spread(min(BACK_OFF_LONGEST_S, BACK_OFF_BASE_S * 2.0 ** (self._backed_off - 1)))

    def _spread(self, wait_s: float) -> float:
        """Many sessions that were refused together do not come back together."""
        return wait_s * (1 + self._jitter() / 4)


class Waits:
    """The waiting turns of a workspace."""

    def __init__(self, store: Store, workspace: str) -> None:
        self._store = store
        self._workspace = workspace
        self._asleep: dict[str, asyncio.Event] = {}

    async def wait(
        self, waiting: RunWaiting, wait_s: float, *, turn: int, guarded: Callable[[Work[None]], Work[None]]
    ) -> None:
        """Until the time is over or somebody ends it. A turn that is over is not shown as waiting any more."""
        session, workspace = waiting.session_id, self._workspace
        ended = self._asleep[session] = asyncio.Event()
        try:
            await self._store.write(
                guarded(lambda tx: waits.begin(tx, workspace, turn, waiting)), durable=False
            )
            with anyio.move_on_after(wait_s):
                await ended.wait()
        finally:
            del self._asleep[session]
            # Also when somebody breaks the step off; the end of a turn has ended its waits already.
            with anyio.CancelScope(shield=True), suppress(TurnCancelled, StoreError):
                await self._store.write(guarded(lambda tx: waits.end(tx, workspace, session)), durable=False)

    def end(self, session: str) -> bool:
        """Go on now; False when the session does not wait."""
        ended = self._asleep.get(session)
        if ended is not None:
            ended.set()
        return ended is not None
