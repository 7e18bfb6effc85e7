"""What stands beside the conversation: what the project wants, its tool servers and its language servers."""

import pytest
from tests.tui.conftest import Desks

pytestmark = pytest.mark.anyio

SMALL = (80, 24)


async def test_trust_tool_servers_and_language_servers_are_looked_at(desks: Desks) -> None:
    """One of each that cannot be started, and what can be done about it."""
    project = desks.project(
        mcp={"broken": {"type": "stdio", "command": "false"}},
        lsp={"missing": {"command": "no-such-server", "filetypes": ["py"]}},
    )
    async with desks.sit(project, size=SMALL) as ana:
        await ana.pilot.press(*"/trust", "enter")
        await ana.until_shown("What this project wants", "no-such-server", "mcp.broken", "trusted")
        await ana.pilot.press(*"missing", "enter")
        await ana.until_shown("Trust this?", "runs no-such-server", "yes, until it changes")
        await ana.pilot.press("n", "escape", "escape")
        await ana.until(lambda: ana.chat.is_active, "the conversation")

        await ana.pilot.press(*"/mcp", "enter")
        await ana.until_shown("Tool servers", "▸✗ broken", "error")
        await ana.pilot.press("enter")
        await ana.until_shown("start it anew", "read its last error")
        await ana.pilot.press(*"read", "enter")
        await ana.until_shown("exit code 1", "c copy")
        await ana.pilot.press("escape", "escape")
        await ana.until(lambda: ana.chat.is_active, "the conversation")

        await ana.pilot.press(*"/lsp", "enter")
        await ana.until_shown("Language servers", "missing", "stop all")
        await ana.pilot.press("enter")
        await ana.until_shown("c copy")
        await ana.pilot.press("escape", "ctrl+r")
        await ana.until_shown("▸", "missing")
