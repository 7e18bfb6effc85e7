"""Arguments that a model got slightly wrong, put right where the meaning is certain.

Weak models fence their JSON, quote it twice, write Python instead, leave a comma too much or the last bracket away. A text that breaks
off inside a string is never completed: half a file must not be written as if it were whole.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

_FENCED = re.compile(r"\s*```\w*\n(.*?)\n?```\s*\Z", re.DOTALL)
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]|,(?=\s*[\]}])|[^"\[\]{},]+|,|"', re.DOTALL)
"""A string, a bracket, a comma with nothing behind it, anything else; a lone quote is a string that does not end."""

_CLOSING = {"{": "}", "[": "]"}

MOST_PIECES = 10_000
LONGEST_CHARS = 1 << 16
"""Repairing is for small slips, and the event loop waits for it."""


def as_object(text: str) -> str | None:
    """The JSON text of an object that was meant; None when that is not certain."""
    if not text.strip():
        return "{}"
    if _is_object(text):
        return text
    if len(text) > LONGEST_CHARS:
        return None
    fenced = _FENCED.match(text)
    bare = (fenced[1] if fenced else text).strip()
    for attempt in (_json, _tidied, _python):
        try:
            value = attempt(bare)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, str) and value != text:
            return as_object(value)  # It was encoded twice.
        if isinstance(value, dict):
            try:
                return json.dumps(value, ensure_ascii=False)
            except (TypeError, ValueError):
                return None
    return None


def known_name(name: str, names: Iterable[str]) -> str:
    """The tool that was meant, by a name that is only spelled differently; the name itself when no single one fits."""
    wanted = _plain(name)
    found = [known for known in names if _plain(known) == wanted]
    return found[0] if len(found) == 1 else name


def _plain(name: str) -> str:
    return name.strip().removeprefix("functions.").replace("-", "_").lower()


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def _json(text: str) -> Any:
    """Also with line breaks inside strings."""
    return json.loads(text, strict=False)


def _tidied(text: str) -> Any:
    """Without commas that have nothing behind them, and with the last bracket, if only that is missing: where more is, or a number
    stands last, nobody knows what else was cut off."""
    pieces: list[str] = []
    open_brackets: list[str] = []
    for found in _PIECE.finditer(text):
        piece = found[0]
        if piece == '"':
            raise ValueError("a string does not end")
        if piece in _CLOSING:
            open_brackets.append(_CLOSING[piece])
        elif piece in ("}", "]") and (not open_brackets or open_brackets.pop() != piece):
            raise ValueError("brackets do not match")
        pieces.append(piece)
        if len(pieces) > MOST_PIECES:
            raise ValueError("it has too many pieces to look at")
    tidy = "".join(_without_loose_commas(pieces)).rstrip()
    if open_brackets and (open_brackets != ["}"] or tidy[-1] not in '"}]'):
        raise ValueError("it breaks off")
    return json.loads(tidy + "".join(open_brackets), strict=False)


def _without_loose_commas(pieces: list[str]) -> list[str]:
    kept: list[str] = []
    following = ""
    for piece in reversed(pieces):
        if piece == "," and following in ("}", "]"):
            continue
        if piece.strip():
            following = piece
        kept.append(piece)
    return kept[::-1]


def _python(text: str) -> Any:
    """A dict as Python writes it; only literals are read, nothing is run."""
    return ast.literal_eval(text)
