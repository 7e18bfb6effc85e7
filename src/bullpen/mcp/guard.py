"""Holds one server to what was accepted of it: see `pins`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import anyio.to_thread

from bullpen.config.shape import McpServer
from bullpen.errors import ConfigError, ContentChanged
from bullpen.mcp.pins import INSTRUCTIONS, PinBook, Pins, Saying, changes, held, key_of, sayings_of
from bullpen.schema.agent import McpChanges

if TYPE_CHECKING:
    from mcp_types import Tool

log = logging.getLogger(__name__)


class Guard:
    """Knows what the server says now, and which of it may reach the model."""

    def __init__(self, book: PinBook, name: str, server: McpServer) -> None:
        self._book = book
        self._name = name
        self._key = key_of(name, server)
        self._said: dict[str, Saying] = {}
        self._pins: Pins = {}
        self.held: frozenset[str] = frozenset()

    @property
    def lets_instructions(self) -> bool:
        return INSTRUCTIONS in self._said and INSTRUCTIONS not in self.held

    def lets(self, tool: str, mark: str = "") -> bool:
        """Whether a tool may be used; with a `mark`, only if it still says what it said then."""
        said = self._said.get(tool)
        return said is not None and tool not in self.held and mark in ("", said.mark)

    def mark(self, tool: str) -> str:
        return self._said[tool].mark

    async def look(self, tools: Iterable[Tool], instructions: str) -> None:
        """Hold what the server says now against what was accepted; the first time, that is what it says."""
        said = await anyio.to_thread.run_sync(sayings_of, tools, instructions)
        await self._hold(said, lambda: self._book.first(self._key, self._name, said))

    async def changes(self) -> McpChanges:
        """What waits for a person. They may have accepted it elsewhere by now."""
        if self.held:
            await self._hold(self._said, lambda: self._book.read(self._key) or {})
        return changes(self._name, self._said, self._pins)

    async def accept(self, fingerprint: str) -> None:
        """Accept what waits. Raises `ContentChanged` when that is not what the person saw, `ConfigError`."""
        said = self._said
        if changes(self._name, said, self._pins).fingerprint != fingerprint:
            raise ContentChanged("the words of the MCP server")
        pins = await anyio.to_thread.run_sync(self._book.accept, self._key, self._name, said)
        self._set(self._said, pins)

    async def _hold(self, said: dict[str, Saying], pins: Callable[[], Pins]) -> None:
        try:
            found = await anyio.to_thread.run_sync(pins)
        except (ConfigError, OSError) as exc:
            # What cannot be compared is not let through.
            log.warning("the tools of the MCP server %s are held back: %s", self._name, exc)
            found = {}
        self._set(said, found)

    def _set(self, said: dict[str, Saying], pins: Pins) -> None:
        before, self.held = self.held, frozenset(held(said, pins))
        self._said, self._pins = said, pins
        if self.held - before:
            log.warning(
                "the MCP server %s says something else than was accepted; 'bullpen mcp accept' shows what is held back",
                self._name,
            )
