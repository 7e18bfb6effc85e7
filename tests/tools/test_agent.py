"""Tasks for a sub-agent."""

from __future__ import annotations

from tests.tools.conftest import Bench


async def test_the_sub_agents_last_words_are_the_result(bench: Bench) -> None:
    """As they are."""
    assert (await bench.call("agent", prompt="find it")).content == "answer to find it"


async def test_silence_and_an_empty_task_are_told(bench: Bench) -> None:
    """The model should try something else."""
    bench.on_delegate = lambda prompt: " \n"
    assert (await bench.call("agent", prompt="find it")).is_error
    assert (await bench.call("agent", prompt=" ")).is_error
