"""A model's host that refuses: everybody sees the wait, anybody may end it, and the session's policy decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.engine.bench import SESSION, WORKSPACE, Bench, open_bench, settings_of

from bullpen.config.settings import ProviderSettings
from bullpen.engine.retry import RETRY_LONGEST_S, TRIES, Refusals
from bullpen.errors import ProviderError
from bullpen.providers.base import LoginBegun, LoginEnded
from bullpen.schema.agent import Model, SelectedModel
from bullpen.schema.choices import ChoicesChange, Policy
from bullpen.store import waits

LIMIT = ProviderError(
    "come back later", title="Too Many Requests", status=429, retryable=True, retry_after_s=3600
)
OTHER = SelectedModel(provider="puppet", model="puppet-2")


async def choose(bench: Bench, policy: Policy) -> None:
    await bench.services.choices.change(SESSION, ChoicesChange(policy=policy))


async def test_a_retry_is_seen_and_can_be_ended(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.say("half an ans")
    step.fail(ProviderError("busy", title="Overloaded", retryable=True, retry_after_s=50))
    waiting = await bench.watcher.until("run_waiting", action="updated")
    assert (waiting.session_id, waiting.run_id, waiting.attempt) == (SESSION, "r", 1)
    assert waiting.reason == "Overloaded: busy"
    assert waiting.model == "puppet-1"
    assert await bench.read(lambda tx: waits.all_of(tx, WORKSPACE)) == [waiting]
    assert bench.services.waits.end(SESSION)
    await bench.watcher.until("run_waiting", action="deleted")
    (await bench.puppet.next()).finish("whole")
    assert (await bench.watcher.run_complete("r")).text == "whole"
    assert not bench.services.waits.end(SESSION)
    assert await bench.read(lambda tx: waits.all_of(tx, WORKSPACE)) == []


async def test_a_cancel_ends_the_wait(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    (await bench.puppet.next()).fail(ProviderError("busy", retryable=True, retry_after_s=50))
    await bench.watcher.until("run_waiting", action="updated")
    await bench.runner.cancel(SESSION)
    await bench.watcher.until("run_waiting", action="deleted")
    assert (await bench.watcher.run_complete("r")).cancelled
    await bench.settled()
    assert await bench.read(lambda tx: waits.all_of(tx, WORKSPACE)) == []


async def test_a_wait_that_a_crash_cut_short_is_not_shown_afterwards(bench: Bench, tmp_path: Path) -> None:
    await bench.prompt("go", run_id="r")
    (await bench.puppet.next()).fail(ProviderError("busy", retryable=True, retry_after_s=50))
    await bench.watcher.until("run_waiting", action="updated")
    await bench.crash_into(tmp_path / "two")
    async with open_bench(tmp_path / "two") as again:
        assert await again.read(lambda tx: waits.all_of(tx, WORKSPACE)) == []
        assert ("run_waiting", "deleted") in await again.logged()


async def test_without_a_policy_a_limit_is_reported(bench: Bench) -> None:
    await bench.prompt("go", run_id="r")
    (await bench.puppet.next()).fail(LIMIT)
    assert (await bench.watcher.run_complete("r")).error == "come back later"


async def test_a_session_that_may_wait_waits_for_the_stated_reset(bench: Bench) -> None:
    await choose(bench, Policy(on_limit="wait"))
    await bench.prompt("go", run_id="r")
    (await bench.puppet.next()).fail(LIMIT)
    waiting = await bench.watcher.until("run_waiting", action="updated")
    assert waiting.until - bench.services.clock.time() > 3000
    bench.services.waits.end(SESSION)
    (await bench.puppet.next()).finish("here I am")
    assert (await bench.watcher.run_complete("r")).text == "here I am"


async def test_a_wait_that_is_longer_than_allowed_is_reported(bench: Bench) -> None:
    await choose(bench, Policy(on_limit="wait", longest_wait_s=60))
    await bench.prompt("go", run_id="r")
    (await bench.puppet.next()).fail(LIMIT)
    assert (await bench.watcher.run_complete("r")).error == "come back later"


async def test_a_session_goes_down_its_list_of_models(bench: Bench) -> None:
    models = (Model(id="puppet-1"), Model(id="puppet-2", name="Second"))
    bench.agent.settings = settings_of(providers={"puppet": ProviderSettings(id="puppet", models=models)})
    gone = SelectedModel(provider="nobody", model="m")
    await choose(bench, Policy(on_limit="switch", models=(gone, OTHER)))
    await bench.prompt("go", run_id="r")
    (await bench.puppet.next()).fail(LIMIT)
    # The first of the list cannot be used, so the same model is asked once more.
    (await bench.puppet.next()).fail(LIMIT)
    step = await bench.puppet.next()
    assert step.request.model == "puppet-2"
    step.call("c1", "echo", '{"name": "x"}')
    step.finish(reason="tool_use")
    step = await bench.puppet.next()
    assert step.request.model == "puppet-2"
    step.finish("done")
    done = await bench.watcher.run_complete("r")
    assert [m.model for m in await bench.messages() if m.role == "assistant"] == ["puppet-2"] * 2
    assert done.text == "done"


@pytest.mark.parametrize("on_limit", ["stop", "wait", "switch"])
def test_what_is_no_limit_is_tried_a_few_times_whatever_the_policy(on_limit: Any) -> None:
    refusals = Refusals(Policy(on_limit=on_limit, models=(OTHER,)), lambda: 0.0)
    error = ProviderError("reset", retryable=True)
    waits_s = [step.wait_s for _ in range(TRIES - 1) if (step := refusals.after(error)) is not None]
    assert waits_s == [1.0, 2.0, 4.0, 8.0]
    assert refusals.after(error) is None


def test_waits_at_a_limit_without_a_stated_end_grow_to_a_cap_and_stay_within_the_whole() -> None:
    refusals = Refusals(Policy(on_limit="wait", longest_wait_s=4000), lambda: 0.0)
    error = ProviderError("limit", status=429, retryable=True)
    seen = []
    while (step := refusals.after(error)) is not None:
        seen.append(step.wait_s)
    assert seen[: TRIES - 1] == [1.0, 2.0, 4.0, 8.0]
    assert seen[TRIES - 1 :] == [30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 900.0, 900.0]
    assert sum(seen[TRIES - 1 :]) <= 4000
    assert RETRY_LONGEST_S < 3600


async def test_everybody_hears_of_a_login(bench: Bench) -> None:
    """Whoever reads it may confirm it in a browser; the answer comes as if nothing had been."""
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.log_in(LoginBegun("aws sso login", "https://device.example/?code=1"))
    asked = await bench.watcher.until("agent_event")
    assert (asked.type, asked.session_id, asked.run_id) == ("aws_sso_auth", SESSION, "r")
    assert (asked.aws_sso_command, asked.aws_sso_url) == ("aws sso login", "https://device.example/?code=1")
    step.log_in(LoginEnded("aws sso login"))
    done = await bench.watcher.until("agent_event")
    assert (done.type, done.error) == ("aws_sso_auth_result", "")
    step.finish("whole")
    assert (await bench.watcher.run_complete("r")).text == "whole"


def test_a_request_that_is_wrong_is_not_repeated() -> None:
    refusals = Refusals(Policy(on_limit="wait"), lambda: 0.0)
    assert refusals.after(ProviderError("bad request", status=400)) is None


def test_the_policy_of_the_config() -> None:
    options = msgspec.convert(
        {"unattended": {"on_limit": "switch", "longest_wait": "90m", "models": ["a/b/c"]}},
        type(settings_of().options),
    )
    policy = settings_of(options=options).policy
    assert policy == Policy(
        on_limit="switch", longest_wait_s=5400, models=(SelectedModel(provider="a", model="b/c"),)
    )
