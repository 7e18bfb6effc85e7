"""What a person at the chat has to know of tool servers: that one needs a login, fails, or says something new."""

from __future__ import annotations

from bullpen.present.inert import cut, inert_line
from bullpen.schema.agent import McpInfo
from bullpen.schema.events import McpEvent

LONGEST = 300


class ToolServers:
    """Remembers what was said of each, so that nothing is said twice."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def news(self, told: McpEvent | McpInfo) -> str:
        """One line, or nothing when there is nothing new to do."""
        note = _note(told)
        is_new = note != self._said.get(told.name, "")
        if told.state != "starting":
            self._said[told.name] = note
        return note if is_new else ""


def _note(told: McpEvent | McpInfo) -> str:
    name = inert_line(told.name)
    if told.state in ("error", "needs auth"):
        return cut(f"MCP server {name}: {inert_line(told.error)}", LONGEST)
    if told.held_count:
        return (
            f"MCP server {name} says something else than was accepted; until you accept it, {told.held_count} of what "
            f"it offers is held back ('bullpen mcp accept {name}' shows it)"
        )
    return ""
