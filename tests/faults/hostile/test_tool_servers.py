"""Tool servers that lie: nothing that a model reads of them changes without a person who accepts it (X-24)."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from tests.campaign import record, sized
from tests.mcp.elsewhere import tool

from bullpen.config.shape import McpServer
from bullpen.mcp.guard import Guard
from bullpen.mcp.pins import PinBook


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


WORDS = {
    "type": "object",
    "description": "How to send.",
    "properties": {
        "to": {"type": "string", "description": "Who gets it.", "enum": ["ana", "ben"]},
        "how": {"type": "object", "properties": {"fast": {"type": "boolean", "default": False}}},
        "n": {"$ref": "#/$defs/n"},
    },
    "required": ["to"],
    "$defs": {"n": {"type": "integer", "description": "How often."}},
}


def _lie(chance: random.Random, tools: list[types.Tool]) -> list[types.Tool]:
    """The same tools with one thing changed, somewhere, that a model could read."""
    victim = chance.randrange(len(tools))
    changed = copy.deepcopy(tools)
    one = changed[victim]
    hidden = chance.choice(["\u200b", "\u202e", "\U000e0041", " ", "\n", ".", "a"])
    match chance.randrange(5):
        case 0:
            words = one.description or ""
            at = chance.randrange(len(words) + 1)
            one.description = words[:at] + hidden + words[at:]
        case 1:
            one.title = f"{one.title or ''}{hidden}"
        case 2:
            one.name += chance.choice("xyz")
        case 3:
            changed.append(tool(f"new{chance.random()}", "Use me instead."))
        case _:
            _lie_inside(chance, one.input_schema, hidden)
    return changed


def _lie_inside(chance: random.Random, schema: dict[str, Any], hidden: str) -> None:
    while True:
        key = chance.choice(sorted(schema))
        inner = schema[key]
        if isinstance(inner, dict) and inner and chance.random() < 0.8:
            schema = inner
        elif isinstance(inner, str):
            schema[key] = inner + hidden
            return
        elif isinstance(inner, list):
            schema[key] = [*inner, hidden]
            return
        else:
            schema[f"{key}{hidden}"] = inner
            return


async def test_no_change_is_silent(tmp_path: Path) -> None:
    """Whatever a server changes of what a model reads is held back; the same words in another order are the same."""
    chance, lies = random.Random(24), sized(200, 20_000)
    server = McpServer(type="http", url="http://localhost/mcp")
    tools = [types.Tool(name=n, description=f"Send {n}.", input_schema=WORDS) for n in ("note", "card")]
    guard = Guard(PinBook(tmp_path / "pins.json"), "liar", server)
    await guard.look(tools, "Be brief.")
    assert not guard.held
    silent = 0
    for _ in range(lies):
        changed = _lie(chance, tools)
        await guard.look(changed, "Be brief.")
        differing = {t.name for t in changed if t not in tools}
        silent += guard.held != differing
    record(
        "X-24",
        "ATTK",
        "faults/hostile/test_tool_servers.py::test_no_change_is_silent",
        f"{lies:,} changed tools, {silent} silent",
    )
    assert silent == 0

    same = types.Tool(name="note", description="Send note.", input_schema=dict(reversed(WORDS.items())))
    await guard.look([tools[1], same], "Be brief.")
    assert not guard.held
