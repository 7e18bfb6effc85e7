"""Text from models, files and other people, made safe for a terminal.

What a terminal would obey, and what would show something other than is there, is replaced by a visible
sign: control characters and escape sequences, direction marks, invisible and tag characters.
"""

from __future__ import annotations

import re
import time
import unicodedata

_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, fillers, Mongolian selectors
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"  # zero width, direction, separators
    "\u3164\ufeff\uffa0\ufff9-\ufffb"  # fillers, byte order mark, annotations
    "\ud800-\udfff"  # lone halves of characters
    "\U000e0000-\U000e0fff"  # tags and the selectors that smuggle text
    "]"
)

_TAB = "    "


def inert(text: str) -> str:
    """The text with line feeds kept and everything dangerous made visible."""
    return _UNSAFE.sub(_sign, text.replace("\r\n", "\n")).replace("\t", _TAB)


def inert_line(text: str) -> str:
    """The same in one line, for titles, paths and errors."""
    return " ".join(inert(text).split())


def cut(text: str, width: int) -> str:
    """The text in at most `width` columns, with a mark where it was cut."""
    taken: list[str] = []
    columns = 0
    for character in text:
        columns += char_width(character)
        if columns > width - 1:
            return "".join(taken) + "…" if len(taken) < len(text) - 1 or columns > width else text
        taken.append(character)
    return text


def char_width(character: str) -> int:
    """How many columns a terminal gives the character."""
    if unicodedata.combining(character) or character in "\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _sign(found: re.Match[str]) -> str:
    number = ord(found[0])
    if number < 0x20:
        return chr(0x2400 + number)
    return "␡" if number == 0x7F else f"<U+{number:04X}>"


def clock(at: float) -> str:
    """The time of day that a moment is here."""
    return time.strftime("%H:%M:%S", time.localtime(at))
