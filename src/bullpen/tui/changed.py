"""How many lines each file of a session gained and lost, as far as tools told it with their results."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from bullpen.schema.message import Message

CHANGING = ("edit", "multiedit", "write", "lsp_replace_symbol")


class ChangedLines:
    """Reads each message once: a call names the file, its result the lines."""

    def __init__(self) -> None:
        self._read: set[str] = set()
        self._paths: dict[str, str] = {}
        self._lines: dict[str, tuple[int, int]] = {}

    def of(self, messages: Iterable[Message]) -> dict[str, tuple[int, int]]:
        """Lines added and removed, by path as the agent named it."""
        for message in messages:
            if message.id not in self._read and message.finish is not None:
                self._read.add(message.id)
                self._take(message)
        return self._lines

    def _take(self, message: Message) -> None:
        for call in message.tool_calls:
            if call.name in CHANGING and isinstance(path := _object(call.input).get("file_path"), str):
                self._paths[call.id] = path
        for result in message.tool_results:
            path = self._paths.get(result.tool_call_id, "")
            told = _object(result.metadata)
            added, removed = told.get("additions"), told.get("removals")
            if path and not result.is_error and isinstance(added, int) and isinstance(removed, int):
                before = self._lines.get(path, (0, 0))
                self._lines[path] = (before[0] + added, before[1] + removed)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
