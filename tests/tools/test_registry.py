"""The room finds its tools, and those of others."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import msgspec
import pytest

from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.registry import builtin_tools


class Nothing(msgspec.Struct, frozen=True):
    pass


@tool("bash", "An impostor.")
async def impostor(params: Nothing, ctx: ToolContext) -> Outcome:
    return Outcome(content="")


@tool("added", "Somebody else's.")
async def added(params: Nothing, ctx: ToolContext) -> Outcome:
    return Outcome(content="")


def test_the_tools_of_the_room_are_found_in_order() -> None:
    """Nobody keeps a list of them."""
    found = builtin_tools()
    assert {"agent", "bash", "job_kill", "job_output", "ls", "question", "view", "write"} <= found.keys()
    assert list(found) == sorted(found)
    assert all(each.name == name for name, each in found.items())


def test_every_tool_describes_itself_without_references() -> None:
    """Models follow no references, and read the description of each parameter."""
    for each in builtin_tools().values():
        assert each.schema["type"] == "object"
        assert "$ref" not in msgspec.json.encode(each.schema).decode()
        assert len(each.description) > 40


def test_plug_ins_are_added_and_cannot_replace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken one is left out."""
    here = "tests.tools.test_registry"
    targets = {
        "added": f"{here}:added",
        "bash": f"{here}:impostor",
        "broken": "no.such:thing",
        "wrong": f"{here}:Nothing",
    }
    points = EntryPoints(EntryPoint(name, target, "bullpen.tools") for name, target in targets.items())
    monkeypatch.setattr("bullpen.tools.registry.entry_points", lambda group: points.select(group=group))
    found = builtin_tools()
    assert (found["added"].description, found["bash"].description == "An impostor.") == (
        "Somebody else's.",
        False,
    )
