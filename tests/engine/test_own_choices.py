"""What a session may use and is told otherwise than its workspace."""

from __future__ import annotations

from tests.engine.bench import SESSION, Bench

from bullpen.config.agents import SubAgent
from bullpen.schema.choices import ChoicesChange


async def choose(bench: Bench, change: ChoicesChange) -> None:
    await bench.services.choices.change(SESSION, change)


async def test_it_has_only_the_tools_that_were_chosen(bench: Bench) -> None:
    """Its sub-agents as well, and from the next turn on."""
    bench.agent.sub_agents[""] = SubAgent(tools=frozenset({"act", "look"}))
    await choose(bench, ChoicesChange(tools=("loo*", "send")))
    await bench.prompt("go", run_id="r1")
    step = await bench.puppet.next()
    assert sorted(tool.name for tool in step.request.tools) == ["look", "send"]
    step.call("c1", "send", '{"prompt": "see"}')
    step.finish(reason="tool_use")
    child = await bench.puppet.next()
    assert [tool.name for tool in child.request.tools] == ["look"]
    child.finish("seen")
    (await bench.puppet.next()).finish("done")
    await bench.watcher.run_complete("r1")
    await choose(bench, ChoicesChange(tools=None))
    await bench.prompt("again", run_id="r2")
    step = await bench.puppet.next()
    assert "act" in {tool.name for tool in step.request.tools}
    step.finish("done")
    await bench.watcher.run_complete("r2")


async def test_its_instructions_stand_at_the_end_and_its_steps_are_counted(bench: Bench) -> None:
    await choose(bench, ChoicesChange(instructions="Answer in rhymes.", steps=1))
    await bench.prompt("go", run_id="r1")
    step = await bench.puppet.next()
    assert step.request.system[-1].endswith("\nAnswer in rhymes.")
    step.call("c1", "echo", '{"name": "a"}')
    step.finish(reason="tool_use")
    done = await bench.watcher.run_complete("r1")
    assert (done.code, "limit of 1 steps" in done.error) == ("turn_too_long", True)
