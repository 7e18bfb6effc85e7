"""Where something stands in a text: lines and columns of the protocol against ours.

The protocol counts a column in units of an encoding, UTF-16 unless agreed otherwise, from 0; people and models
count characters from 1. Python's strings hold code points, so a character beyond U+FFFF is one here and two there.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_LINE_END = re.compile(r"\r\n|\n|\r")


class Place(NamedTuple):
    """A line and a column of a text in code points, both from 0."""

    line: int
    column: int


class Text:
    """A text that is asked for places again and again. Line ends are those of the protocol: LF, CR LF, CR."""

    def __init__(self, text: str, encoding: Encoding = "utf-16") -> None:
        self.text = text
        self._encoding = encoding
        self._starts = _line_starts(text)

    @property
    def line_count(self) -> int:
        return len(self._starts)

    def line(self, number: int) -> str:
        """A line without its end; empty when there is none of that number."""
        if not 0 <= number < len(self._starts):
            return ""
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.text)
        return self.text[self._starts[number] : end].rstrip("\r\n")

    def start_of(self, number: int) -> int:
        """The offset at which a line begins; the end of the text for lines that there are not."""
        return self._starts[number] if 0 <= number < len(self._starts) else len(self.text)

    def to_wire(self, place: Place) -> dict[str, int]:
        before = self.line(place.line)[: place.column]
        return {"line": place.line, "character": units(before, self._encoding)}

    def from_wire(self, position: Any) -> Place:
        """Lenient: what is no position is the beginning, and a column past the end of its line is that end."""
        line, units_in = number_at(position, "line"), number_at(position, "character")
        return Place(line, _column(self.line(line), units_in, self._encoding))

    def offset(self, position: Any) -> int:
        """The offset of a position of the wire in the text."""
        place = self.from_wire(position)
        return min(self.start_of(place.line) + place.column, len(self.text))


def lines_of(text: str) -> list[str]:
    """The lines as the protocol counts them, without their ends."""
    return _LINE_END.split(text)


def units(text: str, encoding: Encoding) -> int:
    """How long a text is in an encoding's units."""
    match encoding:
        case "utf-16":
            return len(text) + sum(character > "\uffff" for character in text)
        case "utf-8":
            return len(text.encode("utf-8", "surrogatepass"))
        case "utf-32":
            return len(text)


def number_at(value: Any, key: str) -> int:
    """A number that a server sent, or 0: what it sends is not to be trusted to be one."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, int) and 0 <= found < 1 << 31 else 0


def _column(line: str, count: int, encoding: Encoding) -> int:
    """The column at a number of units; one within a character is that character's beginning."""
    if encoding == "utf-32" or line.isascii():
        return min(count, len(line))
    spent = 0
    for column, character in enumerate(line):
        spent += units(character, encoding)
        if spent > count:
            return column
    return len(line)


def _line_starts(text: str) -> list[int]:
    return [0, *(end.end() for end in _LINE_END.finditer(text))]
