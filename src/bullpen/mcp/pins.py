"""What servers said about themselves when they were first trusted, and what a person has accepted since.

A tool's name, description and parameters are words that the model follows, and so are a server's instructions. Whoever
approved a server saw them as they were then. So they are kept, by server, when the server first answers; from then
on a tool that is new or says something else is held back until a person has seen the difference and accepts it.

A server is what its configuration says: its name and how it is reached. The book lies outside every project. It holds
for all workspaces of the person, so that a server cannot wait for a new one to change its words in.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bullpen.asks.display import visible, warnings_about
from bullpen.config.jsonc import read_object
from bullpen.config.machine_file import change_file
from bullpen.config.shape import McpServer
from bullpen.errors import ConfigError
from bullpen.mcp.results import shorten
from bullpen.schema.agent import McpChange, McpChanges

if TYPE_CHECKING:
    from mcp_types import Tool

TEXT_BYTES = 16_000
"""Of what a tool says, for the comparison that people see. The hash is over all of it."""

FORMER = 20
"""So many accepted versions are remembered: a server that differs between two projects is not asked about each time."""

INSTRUCTIONS = ""
"""The place of a server's instructions among the names of its tools: no tool is called nothing."""


class Saying(msgspec.Struct, frozen=True):
    """What a server says in one place: a mark of all of it, and the beginning of it for people."""

    mark: str
    text: str


class Pin(msgspec.Struct, frozen=True):
    """What was accepted in that place, the latest version first."""

    marks: tuple[str, ...]
    text: str


Sayings = Mapping[str, Saying]
Pins = dict[str, Pin]


def sayings_of(tools: Iterable[Tool], instructions: str) -> dict[str, Saying]:
    """What a server says now, by the name of the tool. A server without instructions says nothing there."""
    said = {tool.name: _saying(_facts(tool)) for tool in tools if tool.name}
    if instructions.strip():
        said[INSTRUCTIONS] = _saying({"instructions": instructions})
    return said


def held(said: Sayings, pins: Mapping[str, Pin]) -> set[str]:
    """The places that say something nobody has accepted."""
    return {name for name, saying in said.items() if name not in pins or saying.mark not in pins[name].marks}


def changes(server: str, said: Sayings, pins: Mapping[str, Pin]) -> McpChanges:
    """What is held back of a server, for people, with the mark that accepting it takes."""
    names = sorted(held(said, pins))
    return McpChanges(
        name=server,
        fingerprint=_fingerprint(said, names),
        changes=tuple(_change(name, said[name], pins.get(name)) for name in names),
    )


def _change(name: str, saying: Saying, pin: Pin | None) -> McpChange:
    before = visible(pin.text) if pin else ""
    after = visible(saying.text)
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="")
    # The first two only name the sides.
    difference = "\n".join(itertools.islice(lines, 2, None))
    return McpChange(
        tool=visible(name),
        kind="instructions" if name == INSTRUCTIONS else "changed" if pin else "new",
        diff=difference or f"only what stands after the first {TEXT_BYTES} bytes is different",
        warnings=warnings_about(None, saying.text),
    )


def _fingerprint(said: Sayings, names: Iterable[str]) -> str:
    marks = [[name, said[name].mark] for name in names]
    return hashlib.sha256(_canonical(marks)).hexdigest() if marks else ""


def _facts(tool: Tool) -> dict[str, Any]:
    return {
        "title": tool.title or "",
        "description": tool.description or "",
        "parameters": tool.input_schema,
    }


def _saying(facts: Mapping[str, Any]) -> Saying:
    """For people: texts as they stand, line by line, the rest as JSON."""
    words = [value for value in facts.values() if isinstance(value, str) and value]
    data = [json.dumps(v, indent=1, ensure_ascii=False) for v in facts.values() if not isinstance(v, str)]
    return Saying(
        hashlib.sha256(_canonical(facts)).hexdigest(), shorten("\n".join([*words, *data]), TEXT_BYTES)
    )


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class PinBook:
    """The file. It is read anew each time: another process may have written to it. Its calls block."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self, server: str) -> Pins | None:
        """What was accepted of a server, by its key; None when it is not known yet. Raises `ConfigError`."""
        return _pins_in(read_object(self.file) or {}, server)

    def first(self, server: str, label: str, said: Sayings) -> Pins:
        """The pins of a server; one that is not known yet is taken at its word. Raises `ConfigError`."""
        known = self.read(server)
        if known is not None:
            return known
        pins: Pins = {}

        def change(content: dict[str, Any]) -> None:
            nonlocal pins
            # Somebody else may have been quicker.
            quicker = _pins_in(content, server)
            pins = {n: Pin((s.mark,), s.text) for n, s in said.items()} if quicker is None else quicker
            _servers(content)[server] = {"label": label, "pins": msgspec.to_builtins(pins)}

        change_file(self.file, change)
        return pins

    def accept(self, server: str, label: str, said: Sayings) -> Pins:
        """Accept all that a server says now, beside what was accepted before. Raises `ConfigError`."""
        pins: Pins = {}

        def change(content: dict[str, Any]) -> None:
            nonlocal pins
            pins = _pins_in(content, server) or {}
            for name, saying in said.items():
                former = pins[name].marks if name in pins else ()
                marks = (saying.mark, *(mark for mark in former if mark != saying.mark))
                pins[name] = Pin(marks[:FORMER], saying.text)
            _servers(content)[server] = {"label": label, "pins": msgspec.to_builtins(pins)}

        change_file(self.file, change)
        return pins


def key_of(name: str, server: McpServer) -> str:
    """Which server this is, by its configuration: another command line or address is another server."""
    where = [name, server.type, server.command, list(server.args), server.url]
    return hashlib.sha256(_canonical(where)).hexdigest()


def _servers(content: dict[str, Any]) -> dict[str, Any]:
    servers = content.setdefault("servers", {})
    if not isinstance(servers, dict):
        servers = content["servers"] = {}
    return servers


def _pins_in(content: Mapping[str, Any], server: str) -> Pins | None:
    servers = content.get("servers")
    entry = servers.get(server) if isinstance(servers, dict) else None
    if not isinstance(entry, dict):
        return None
    try:
        return msgspec.convert(entry.get("pins"), Pins)
    except msgspec.ValidationError as exc:
        raise ConfigError(f"the accepted tools of an MCP server cannot be read: {exc}") from exc
