"""What the agent is told of Bullpen itself."""

from __future__ import annotations

from tests.tools.conftest import Bench

from bullpen.tools.base import Section


async def test_the_configuration_is_shown_by_sections(bench: Bench) -> None:
    bench.about.sections = [Section("models", ("large = a/b",)), Section("mcp", ("x = connected",))]
    outcome = await bench.call("bullpen_info")
    assert outcome.content == "[models]\nlarge = a/b\n\n[mcp]\nx = connected"


async def test_the_last_entries_of_the_log_are_shown(bench: Bench) -> None:
    assert (await bench.call("bullpen_logs")).content == "The log is empty."
    bench.about.lines = [f"line {n}" for n in range(200)]
    assert (await bench.call("bullpen_logs", lines=2)).content == "line 198\nline 199"
    assert len((await bench.call("bullpen_logs")).content.splitlines()) == 50
    assert len((await bench.call("bullpen_logs", lines=1000)).content.splitlines()) == 100
    assert (await bench.call("bullpen_logs", lines=-1)).is_error
