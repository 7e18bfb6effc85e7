"""The model and the tools of a simulated world: they do what the seed says, at the pace it says.

A model speaks, calls tools, breaks off, is overloaded or falls silent for minutes. A tool finishes, fails, asks, has an effect, or
takes no notice of a cancel for a while. `calm` ends all that: what is silent goes on, and every turn comes to its end.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import anyio
import msgspec
from tests.faults.sim.world import World

from bullpen.errors import ProviderError, ToolFailed
from bullpen.providers.base import (
    ModelEvent,
    ModelRequest,
    StepDone,
    TextDelta,
    ToolCallDone,
    ToolCallStarted,
    Usage,
)
from bullpen.schema.asks import Question
from bullpen.tools.base import Outcome, Tool, ToolContext, tool

MOST_STEPS = 4
"""A model that has called tools this often in a turn comes to an end."""

SILENCE_S = 600.0


class Named(msgspec.Struct, frozen=True):
    name: str = ""


class Agent:
    """One model and one set of tools; what they did is on record."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calm = asyncio.Event()
        self.effects: Counter[str] = Counter()
        self.speaking: set[str] = set()
        """Sessions to which the model is just speaking."""
        self.working: set[str] = set()
        """Sessions in which a tool is at work, other than waiting for somebody."""
        self._calls = 0
        self._words = 0

    async def _pause(self, longest_s: float) -> None:
        await asyncio.sleep(self.world.rng.random() ** 2 * (0.5 if self.calm.is_set() else longest_s))

    # The model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.speaking.add(request.session_id)
        try:
            async for event in self._answer(request):
                yield event
        finally:
            self.speaking.discard(request.session_id)

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        rng, calm = self.world.rng, self.calm.is_set()
        await self._pause(1.0)
        for _ in range(rng.choice((0, 1, 2, 5)) if request.purpose != "title" else 1):
            self._words += 1
            yield TextDelta(f"w{self._words} ")
            await self._pause(0.3 if rng.random() < 0.8 else 8.0)
        if not calm and self.world.chance(12):
            self.world.tally["model broke off"] += 1
            raise ProviderError(
                "reset", retryable=self.world.chance(50), retry_after_s=rng.choice((None, 1.0))
            )
        if not calm and self.world.chance(8):
            self.world.tally["model fell silent"] += 1
            with anyio.move_on_after(SILENCE_S):
                await self.calm.wait()
        steps = sum(type(turn).__name__ == "ToolTurn" for turn in request.turns[-2 * MOST_STEPS :])
        if request.purpose == "turn" and steps < MOST_STEPS and self.world.chance(10 if calm else 55):
            for _ in range(rng.choice((1, 1, 2))):
                self._calls += 1
                name = rng.choice(("act", "act", "look", "stay", "fail", "wonder"))
                yield ToolCallStarted(f"c{self._calls}", name)
                yield ToolCallDone(f"c{self._calls}", name, f'{{"name":"x{self._calls}"}}')
            yield StepDone("tool_use", Usage(input=3, output=5))
        else:
            yield StepDone("end_turn", Usage(input=3, output=5))

    # The tools

    def tools(self) -> Mapping[str, Tool]:
        world = self.world

        @tool("act", "Change the world.")
        async def act(params: Named, ctx: ToolContext) -> Outcome:
            await ctx.permit("write", description="act", params={"name": params.name}, path=ctx.root)
            self.effects[params.name] += 1
            world.tell("tool", f"effect {params.name}")
            await self._work(ctx, 10.0)
            return Outcome(content=f"did {params.name}")

        @tool("look", "Look around.", effects=False, parallel=True)
        async def look(params: Named, ctx: ToolContext) -> Outcome:
            await self._work(ctx, 10.0)
            return Outcome(content=f"saw {params.name}")

        @tool("stay", "Take no notice of a cancel.", effects=False)
        async def stay(params: Named, ctx: ToolContext) -> Outcome:
            with anyio.CancelScope(shield=True):
                await self._work(ctx, 20.0)
            return Outcome(content=f"stayed {params.name}")

        @tool("fail", "Fail.", effects=False)
        async def fail(params: Named, ctx: ToolContext) -> Outcome:
            await self._work(ctx, 1.0)
            raise ToolFailed(f"no {params.name}")

        @tool("wonder", "Ask a person.", effects=False, interactive=True)
        async def wonder(params: Named, ctx: ToolContext) -> Outcome:
            question = Question(id="q", type="free_text", question=params.name)
            answers = await ctx.ask([question])
            return Outcome(content=" ".join(a.fill_in_text if a else "(none)" for a in answers))

        return {t.name: t for t in (act, look, stay, fail, wonder)}

    async def _work(self, ctx: Any, longest_s: float) -> None:
        self.working.add(ctx.session_id)
        try:
            await self._pause(longest_s)
        finally:
            self.working.discard(ctx.session_id)
