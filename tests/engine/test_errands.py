"""A sub-agent on an errand: the small model, a folder instead of the workspace, and inner tools that nobody else is offered."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.engine.bench import SESSION, Bench, settings_of
from tests.engine.test_sub_agents import results

from bullpen.config.agents import SubAgent
from bullpen.config.settings import ProviderSettings
from bullpen.schema.agent import Model, SelectedModel
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.errands import Errand
from bullpen.tools.view import view
from bullpen.tools.web_search import web_search


class Nothing(msgspec.Struct, frozen=True):
    pass


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "page.md").write_text("what the page says\n")
    return tmp_path / "scratch"


async def test_it_works_in_its_folder_with_the_small_model(bench: Bench, scratch: Path) -> None:
    goer = SubAgent(
        name="agentic_fetch",
        heading="Fetch Analysis",
        prompt="Look.",
        role="small",
        tools=frozenset({"view", "web_search", "agentic_fetch", "agent"}),
    )

    @tool("agentic_fetch", "Send somebody to the web.", effects=False)
    async def sending(params: Nothing, ctx: ToolContext) -> Outcome:
        return Outcome(content=await ctx.delegate("find", errand=Errand(agent=goer, directory=scratch)))

    bench.agent.more_tools |= {"view": view, "web_search": web_search, "agentic_fetch": sending}
    models = (Model(id="puppet-1"), Model(id="puppet-2", cost_per_1m_in=1.0))
    bench.agent.settings = settings_of(
        providers={"puppet": ProviderSettings(id="puppet", models=models)},
        small=SelectedModel(provider="puppet", model="puppet-2"),
    )
    await bench.prompt("go", run_id="r")
    step = await bench.puppet.next()
    offered = {spec.name for spec in step.request.tools}
    assert "web_search" not in offered
    assert {"view", "agentic_fetch"} <= offered
    step.call("c1", "agentic_fetch")
    step.finish(reason="tool_use")

    child = await bench.puppet.next()
    assert child.request.model == "puppet-2"
    assert sorted(spec.name for spec in child.request.tools) == ["view", "web_search"]
    assert f"Working directory: {scratch}" in "".join(child.request.system)
    child.call("v1", "view", '{"file_path": "page.md"}')
    child.finish(reason="tool_use")
    child = await bench.puppet.next()
    assert "what the page says" in results(child)[0]
    child.call("v2", "view", f'{{"file_path": "{bench.root}/secret"}}')
    child.finish(reason="tool_use")
    request = await bench.watcher.until("permission_request")
    assert request.session_id != SESSION
    await bench.grant(request, "allow")
    child = await bench.puppet.next()
    child.finish("found")
    step = await bench.puppet.next()
    assert results(step) == ["found"]
    step.finish("done")
    await bench.watcher.run_complete("r")
    assert await bench.sql("SELECT title FROM sessions WHERE parent = $1", SESSION) == [("Fetch Analysis",)]
    booked = await bench.sql("SELECT DISTINCT tool FROM ledger WHERE session <> $1", SESSION)
    assert booked == [("agentic_fetch",)]
