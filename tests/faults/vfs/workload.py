"""People who prompt, cancel and rename, a model that answers, and a note of everything they were promised.

The engine and the store are the product's; only the model and the people are played. Whoever is refused tries again with
the same idempotency key, as a client does.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from tests.engine.bench import PATIENCE_S, WORKSPACE, Answering, Bench, until

from bullpen.errors import StoreError
from bullpen.store import sessions
from bullpen.store.tx import Tx

T = TypeVar("T")

ENDED = frozenset({"done", "failed", "cancelled", "interrupted"})
SESSIONS = ("s1", "s2")
CLIENT_RETRY_S = 0.01


class Promised(NamedTuple):
    """What the people were told at one moment."""

    runs: frozenset[str]
    """Accepted."""
    ended: frozenset[str]
    """Accepted, and over: cancelled by an answered cancel."""
    titles: dict[str, str]
    shown: int
    """The last durable number on the stream."""
    epoch: str


class Workload:
    def __init__(self, bench: Bench, chance: random.Random, *, prompts: int, longest: int = 3000) -> None:
        self._bench = bench
        # Its own: the disk is also cut while the workspace closes, when the store has let go of it.
        self._feed = bench.store.feeds[WORKSPACE]
        self._chance = chance
        self._prompts = prompts
        self._longest = longest
        self._runs: dict[str, str] = {}
        """Run ids and their sessions."""
        self._ended: set[str] = set()
        self._titles: dict[str, str] = {}
        self.refused = 0

    def promised(self) -> Promised:
        """To be called from any thread: each copy is one step of the interpreter."""
        feed = self._feed
        ended = frozenset(self._ended)
        return Promised(frozenset(self._runs), ended, dict(self._titles), feed.head, feed.epoch)

    async def run(self) -> None:
        """Returns when every prompt has come to its end."""
        model = asyncio.ensure_future(self._play_model())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._people()
                await until(self._is_over)
        finally:
            model.cancel()

    async def _people(self) -> None:
        chance = self._chance
        for session in SESSIONS:
            await self._create(session)
        for n in range(self._prompts):
            run_id, session = f"run-{n}", chance.choice(SESSIONS)
            text = f"prompt {n} " + "x" * chance.choice((10, self._longest))
            await self._accept(text, run_id, session)
            if chance.random() < 0.25:
                await self._cancel(session)
            if chance.random() < 0.25:
                await self._rename(session, f"title {n}")
            await asyncio.sleep(chance.choice((0, 0, 0.005)))

    async def _create(self, session: str) -> None:
        await self._insist(lambda: self._bench.write(lambda tx: _create(tx, session)))
        self._titles[session] = session

    async def _accept(self, text: str, run_id: str, session: str) -> None:
        prompt = functools.partial(
            self._bench.prompt, text, session=session, idempotency_key=run_id, permissions="allow"
        )
        await self._insist(lambda: prompt(run_id=run_id))
        self._runs[run_id] = session

    async def _cancel(self, session: str) -> None:
        """It covers everything that was accepted before."""
        before = [run for run, where in self._runs.items() if where == session]
        await self._insist(lambda: self._bench.runner.cancel(session))
        self._ended.update(before)

    async def _rename(self, session: str, title: str) -> None:
        await self._insist(lambda: self._bench.write(lambda tx: _rename(tx, session, title)))
        self._titles[session] = title

    async def _insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await attempt()
            except StoreError:
                self.refused += 1
                await asyncio.sleep(CLIENT_RETRY_S)

    async def _is_over(self) -> bool:
        try:
            states = await self._bench.states()
        except StoreError:
            return False
        return len(states) == self._prompts and set(states.values()) <= ENDED

    async def _play_model(self) -> None:
        async with asyncio.TaskGroup() as answers:
            while True:
                answers.create_task(self._answer(await self._bench.puppet.asked.get()))

    async def _answer(self, step: Answering) -> None:
        chance = self._chance
        asked_before = any(type(turn).__name__ == "ToolTurn" for turn in step.request.turns[-1:])
        for word in range(chance.randrange(1, 4)):
            step.say(f"word {word} " * chance.choice((1, 40)))
            # A model takes time to speak: then its text is stored as it grows.
            await asyncio.sleep(chance.choice((0, 0.012)))
        if not asked_before and chance.random() < 0.5:
            step.call(f"call-{chance.random()}", chance.choice(("echo", "act")), '{"name": "n"}')
        step.finish()


async def _create(tx: Tx, session: str) -> None:
    if not await sessions.exists(tx, WORKSPACE, session):
        await sessions.create(tx, WORKSPACE, session, session)


async def _rename(tx: Tx, session: str, title: str) -> None:
    await sessions.change(tx, WORKSPACE, session, title=title, todos=None)
