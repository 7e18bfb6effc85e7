"""Names against places: where a name stands in a text, and where a server points.

A model knows names, servers know places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from bullpen.lsp.documents import path_of, read_text
from bullpen.lsp.positions import Encoding, Place, Text, lines_of, number_at
from bullpen.system import paths

MAX_TEXT_BYTES = 2 * 1024 * 1024
MAX_LOCATIONS = 2_000

_SEPARATORS = re.compile(r"::|[.\\#]")
_DECLARES = re.compile(
    r"\b(?:def|class|func|fn|function|const|let|var|type|interface|struct|enum|trait|impl|module|namespace|record|val)\s"
)


class Hit(NamedTuple):
    """A place at which a name stands, and the line around it."""

    path: Path
    place: Place
    line: str

    def rank(self, symbol: str) -> tuple[bool, bool]:
        """Declarations first, and before others those where the name is written in full."""
        before = self.line[: self.place.column]
        is_full = (before + last_part(symbol)).endswith(symbol)
        return (not _DECLARES.search(before), not is_full)


class Location(NamedTuple):
    """Where a server points: a file, and a line and a column of the wire in it."""

    path: Path
    line: int
    character: int

    @property
    def start(self) -> dict[str, int]:
        return {"line": self.line, "character": self.character}


def last_part(symbol: str) -> str:
    """The name itself, without what it belongs to: `b` of `a.b`, `A::b`, `A\\b`."""
    return _SEPARATORS.split(symbol)[-1] or symbol


def hits(path: Path, text: str, symbol: str) -> Iterator[Hit]:
    """Where the name stands as a whole word."""
    pattern = re.compile(rf"(?<!\w){re.escape(last_part(symbol))}(?!\w)")
    for number, line in enumerate(lines_of(text)):
        for match in pattern.finditer(line):
            yield Hit(path, Place(number, match.start()), line)


def locations(answer: Any) -> list[Location]:
    """What a server answers when it is asked where something is: one place, several, or links."""
    found: dict[Location, None] = {}
    for each in answer[:MAX_LOCATIONS] if isinstance(answer, list) else [answer]:
        if not isinstance(each, dict):
            continue
        path = path_of(each.get("uri") or each.get("targetUri"))
        area = each.get("targetSelectionRange") or each.get("range") or each.get("targetRange")
        if path is not None and isinstance(area, dict):
            start = area.get("start")
            found[Location(path, number_at(start, "line"), number_at(start, "character"))] = None
    return list(found)


class Texts:
    """Texts of files of the workspace that places are shown in, each read once. Of others nothing is read."""

    def __init__(self, root: Path, encoding: Encoding) -> None:
        self._root = root
        self._encoding = encoding
        self._texts: dict[Path, Text] = {}

    async def get(self, path: Path) -> Text:
        if path not in self._texts:
            text = await anyio.to_thread.run_sync(self._read, path)
            self._texts[path] = Text(text or "", self._encoding)
        return self._texts[path]

    def _read(self, path: Path) -> str | None:
        real = paths.real(path)
        return read_text(real, MAX_TEXT_BYTES) if real.is_relative_to(self._root) else None
