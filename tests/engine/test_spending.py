"""What model calls cost: every call is on the ledger, and no call is made beyond a budget."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.engine.bench import (
    SESSION,
    WORKSPACE,
    Answering,
    Bench,
    open_bench,
    settings_of,
    summary_under_way,
)

from bullpen.config.agents import SubAgent
from bullpen.config.settings import ProviderSettings
from bullpen.config.shape import BudgetLimits, Options
from bullpen.errors import ProviderError
from bullpen.providers.base import Usage
from bullpen.schema.agent import CostTier, Model
from bullpen.schema.choices import Budget, ChoicesChange, Policy
from bullpen.store import ledger

MILLION = 1_000_000
DEAR = Usage(input=MILLION)
"""One dollar, at the puppet's price."""


@pytest.fixture(autouse=True)
def without_summaries(bench: Bench) -> None:
    """A dollar's worth of text fills the puppet's context many times."""
    bench.agent.settings = settings_of(options=Options(disable_auto_summarize=True))


async def turn(bench: Bench, run_id: str, *, usage: Usage = DEAR, **more: Any) -> None:
    await bench.prompt(run_id, run_id=run_id, **more)
    (await bench.puppet.next()).finish("ok", usage=usage)
    assert not (await bench.watcher.run_complete(run_id)).error


async def by(bench: Bench, group: Any) -> dict[str, float]:
    rows = await bench.read(lambda tx: ledger.grouped(tx, WORKSPACE, group, 0))
    return {row.key: row.cost for row in rows}


async def refused(bench: Bench, run_id: str) -> str:
    await bench.prompt("more", run_id=run_id)
    return (await bench.watcher.run_complete(run_id)).error


async def test_every_call_is_on_the_ledger(bench: Bench) -> None:
    await turn(bench, "r1", author="ana", client="laptop")
    await bench.prompt("send one", run_id="r2", author="ben")
    step = await bench.puppet.next()
    step.call("c1", "send", '{"prompt": "look"}')
    step.finish(reason="tool_use", usage=DEAR)
    (await bench.puppet.next()).finish("found", usage=Usage(output=MILLION))
    (await bench.puppet.next()).finish("done", usage=Usage(input=MILLION, output=MILLION))
    await bench.watcher.run_complete("r2")
    assert await by(bench, "person") == {"ana": 1.0, "ben": 6.0}
    assert await by(bench, "client") == {"laptop": 1.0, "": 6.0}
    assert await by(bench, "session") == {SESSION: 7.0}
    assert await by(bench, "model") == {"puppet/puppet-1": 7.0}
    assert await by(bench, "tool") == {"": 5.0, "agent": 2.0}
    assert sorted((await by(bench, "agent")).values()) == [2.0, 5.0]
    assert sorted((await by(bench, "turn")).values()) == [1.0, 6.0]
    assert list((await by(bench, "day")).values()) == [7.0]
    [session] = await bench.sql("SELECT cost FROM sessions WHERE id = $1", SESSION)
    assert session == (7.0,)


async def test_a_silent_vendor_is_counted_for(bench: Bench) -> None:
    await turn(bench, "r1", usage=Usage())
    [row] = await bench.read(lambda tx: ledger.grouped(tx, WORKSPACE, "model", 0))
    assert row.estimated == 1
    assert row.input > 0
    assert row.output == 1


async def test_what_the_vendor_says_it_cost_counts(bench: Bench) -> None:
    await turn(bench, "r1", usage=Usage(input=MILLION, cost=0.25))
    assert await by(bench, "session") == {SESSION: 0.25}


@pytest.mark.parametrize(("prompt", "cost"), [(200_000, 0.2), (200_001, 0.6)])
async def test_a_long_prompt_may_cost_more(bench: Bench, prompt: int, cost: float) -> None:
    """Some hosts ask another price for the whole request; what comes from the cache counts for its length."""
    tiers = tuple(
        CostTier(above=above, cost_per_1m_in=price) for above, price in ((200_000, 3), (900_000, 9))
    )
    model = Model(id="puppet-1", cost_per_1m_in=1, cost_per_1m_out=2, cost_tiers=tiers)
    bench.agent.settings = settings_of(
        options=Options(disable_auto_summarize=True),
        providers={"puppet": ProviderSettings(id="puppet", type="puppet", models=(model,))},
    )
    await turn(bench, "r1", usage=Usage(input=prompt - 10, cache_read=10))
    assert (await by(bench, "session"))[SESSION] == pytest.approx(cost, rel=1e-3)


@pytest.mark.parametrize("limit", ["session", "day", "workspace"])
async def test_a_budget_of_the_config_is_kept(bench: Bench, limit: str) -> None:
    bench.agent.settings = settings_of(
        options=Options(disable_auto_summarize=True, budget=BudgetLimits(**{limit: 1.5}))
    )
    await turn(bench, "r1")
    await turn(bench, "r2")
    assert f"budget of this {limit} is spent: $2 of $1.5" in await refused(bench, "r3")
    assert bench.puppet.asked.empty()


async def test_a_run_stops_before_the_call_that_is_too_much(bench: Bench) -> None:
    await bench.services.choices.change(SESSION, ChoicesChange(budget=Budget(run=1)))
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.call("c1", "echo", '{"name": "x"}')
    step.finish(reason="tool_use", usage=DEAR)
    assert "budget of this run is spent" in (await bench.watcher.run_complete("r")).error
    await turn(bench, "r2")


async def test_a_session_shares_its_budget_with_its_sub_agents(bench: Bench) -> None:
    await bench.services.choices.change(SESSION, ChoicesChange(budget=Budget(session=2)))
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.call("c1", "send", '{"prompt": "look"}')
    step.finish(reason="tool_use", usage=DEAR)
    child = await bench.puppet.next()
    child.call("c2", "echo", '{"name": "x"}')
    child.finish(reason="tool_use", usage=DEAR)
    # Neither the sub-agent nor the turn itself may ask again.
    assert "budget of this session is spent" in (await bench.watcher.run_complete("r")).error
    # With a higher budget the session goes on.
    await bench.services.choices.change(SESSION, ChoicesChange(budget=Budget(session=9)))
    await turn(bench, "r2")


async def test_a_sub_agent_has_an_allowance_of_its_own(bench: Bench) -> None:
    bench.agent.sub_agents[""] = SubAgent(budget=0.5)
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.call("c1", "send", '{"prompt": "look"}')
    step.finish(reason="tool_use", usage=DEAR)
    child = await bench.puppet.next()
    child.call("c2", "echo", '{"name": "x"}')
    child.finish(reason="tool_use", usage=DEAR)
    step = await bench.puppet.next()
    assert "budget of this sub-agent is spent" in str(step.request.turns[-1])
    step.finish("done")
    assert (await bench.watcher.run_complete("r")).text == "done"


async def test_an_answer_is_paid_for_although_its_calls_are_cancelled(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.call("c1", "hold", '{"name": "x"}')
    step.finish(reason="tool_use", usage=DEAR)
    await bench.gate.entered()
    await bench.runner.cancel(SESSION)
    assert (await bench.watcher.run_complete("r")).cancelled
    assert await by(bench, "session") == {SESSION: 1.0}


# Answers that never end


async def booked(bench: Bench) -> list[tuple[Any, ...]]:
    """The ledger in short, and whether anything is still taken to be under way."""
    assert await bench.sql("SELECT session FROM asked") == []
    return await bench.sql("SELECT purpose, output, estimated FROM ledger WHERE input > 0 ORDER BY n")


async def cost_of_session(bench: Bench) -> float:
    return float((await bench.sql("SELECT cost FROM sessions WHERE id = $1", SESSION))[0][0])


async def half_an_answer(bench: Bench) -> Answering:
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.think("hm, ")
    step.stop_thinking()
    step.say("half an answer: ")
    await bench.watcher.until("message", lambda m: m.role == "assistant" and m.text)
    return step


async def test_a_cancelled_answer_is_paid_for_as_far_as_it_came(bench: Bench) -> None:
    step = await half_an_answer(bench)
    await bench.runner.cancel(SESSION)
    assert await booked(bench) == [("turn", 5, 1)]
    step.say("too late")
    await bench.settled()
    assert await booked(bench) == [("turn", 5, 1)]
    assert (await by(bench, "session"))[SESSION] == pytest.approx(await cost_of_session(bench))
    assert await cost_of_session(bench) > 10 / MILLION


async def test_an_answer_that_a_crash_cut_short_is_paid_for(tmp_path: Path) -> None:
    async with open_bench(tmp_path / "one") as bench:
        await bench.session()
        await half_an_answer(bench)
        await bench.crash_into(tmp_path / "two")
    async with open_bench(tmp_path / "two") as bench:
        assert await booked(bench) == [("turn", 5, 1)]
        assert await cost_of_session(bench) > 0


async def test_an_answer_that_somebody_spoke_into_is_paid_for_once(bench: Bench) -> None:
    await half_an_answer(bench)
    await bench.prompt("stop, do this", timing="now")
    (await bench.puppet.next()).finish("yes", usage=Usage(input=9, output=9))
    await bench.watcher.run_complete("r")
    assert await booked(bench) == [("turn", 5, 1), ("turn", 9, 0)]


async def test_each_half_answer_of_a_host_that_breaks_off_is_paid_for(bench: Bench) -> None:
    step = await half_an_answer(bench)
    step.fail(ProviderError("gone", retryable=True, retry_after_s=0))
    (await bench.puppet.next()).fail(ProviderError("busy", retryable=True, retry_after_s=0))
    (await bench.puppet.next()).finish("done", usage=Usage(input=9, output=9))
    await bench.watcher.run_complete("r")
    assert await booked(bench) == [("turn", 5, 1), ("turn", 9, 0)]


async def test_an_answer_that_fails_is_paid_for_once(bench: Bench) -> None:
    (await half_an_answer(bench)).fail(ValueError("odd"))
    assert (await bench.watcher.run_complete("r")).error
    assert await booked(bench) == [("turn", 5, 1)]


async def test_a_call_of_which_nothing_came_costs_nothing(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    await bench.puppet.next()
    await bench.runner.cancel(SESSION)
    assert await booked(bench) == []


async def test_a_cancelled_summary_is_paid_for_although_it_vanishes(bench: Bench) -> None:
    await turn(bench, "r1", usage=Usage(input=9, output=9))
    async with summary_under_way(bench) as step:
        step.say("so far, so good.")
        await bench.watcher.until("message", lambda m: m.is_summary_message and m.text)
        await bench.runner.cancel(SESSION)
    assert await booked(bench) == [("turn", 9, 0), ("summary", 4, 1)]


@pytest.mark.parametrize("alone", [True, False])
async def test_what_a_cancelled_sub_agent_said_counts_for_who_sent_it(bench: Bench, alone: bool) -> None:
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.call("c1", "send", '{"prompt": "look"}')
    step.finish(reason="tool_use", usage=DEAR)
    child = await bench.puppet.next()
    child.call("c2", "echo", '{"name": "x"}')
    child.finish(reason="tool_use", usage=DEAR)
    child = await bench.puppet.next()
    child.say("half")
    said = await bench.watcher.until("message", lambda m: m.text == "half")
    await bench.runner.cancel(said.session_id if alone else SESSION)
    if alone:
        (await bench.puppet.next()).finish("done", usage=Usage(input=9, output=9))
    await bench.watcher.run_complete("r")
    last = [("turn", 9, 0)] if alone else []
    assert await booked(bench) == [("turn", 0, 0), ("turn", 0, 0), ("turn", 1, 1), *last]
    assert await cost_of_session(bench) == pytest.approx((await by(bench, "session"))[SESSION])


async def test_choices_made_at_once_are_all_kept(bench: Bench) -> None:
    change = bench.services.choices.change
    await asyncio.gather(
        change(SESSION, ChoicesChange(budget=Budget(run=1))), change(SESSION, ChoicesChange(policy=Policy()))
    )
    kept = bench.services.choices.of(SESSION)
    assert (kept.budget, kept.policy) == (Budget(run=1), Policy())
