"""A turn that would go on for ever is stopped, and says so."""

from __future__ import annotations

from tests.engine.bench import Bench, settings_of

from bullpen.config.shape import Options, TurnLimits


def limit(bench: Bench, limits: TurnLimits) -> None:
    bench.agent.settings = settings_of(options=Options(turn_limits=limits))


async def test_a_turn_has_a_number_of_steps(bench: Bench) -> None:
    limit(bench, TurnLimits(steps=3))
    await bench.prompt("go", run_id="r")
    for n in range(3):
        step = await bench.puppet.next()
        step.call(f"c{n}", "echo", f'{{"name": "{n}"}}')
        step.finish(reason="tool_use")
    done = await bench.watcher.run_complete("r")
    assert "stopped at its limit of 3 steps" in done.error
    # The session goes on where it was stopped.
    await bench.ask_and_hear("go on", "done", run_id="r2")


async def test_a_turn_has_a_time(bench: Bench) -> None:
    limit(bench, TurnLimits(time="50ms"))
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    step.say("this takes")
    assert "stopped at its limit of 0.05 s" in (await bench.watcher.run_complete("r")).error
    await step.closed.wait()
    assert [row[-1] for row in await bench.rows()] == ["stop", "error"]
