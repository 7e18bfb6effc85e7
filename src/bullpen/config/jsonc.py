"""JSON as people write it: comments and trailing commas are fine, and everything has a place that can be told."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from bullpen.errors import ConfigError

MAX_FILE_BYTES = 1 << 20
"""A config file is small; more is an accident or an attack."""

# The closing marks are optional: what is left open is matched to its end once, and so costs linear time.
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"?|,(?=[ \t\r\n]*[}\]])', re.DOTALL)


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')

MAX_DEPTH = 50
"""How deep the places of values are remembered."""


class Source:
    """The object in a file, and where its parts stand."""

    def __init__(self, name: str, content: dict[str, Any], plain: str, *, repeats: bool = False) -> None:
        self.name = name
        self.content = content
        self._plain = plain
        self._repeats = repeats

    def __contains__(self, steps: tuple[str | int, ...]) -> bool:
        return steps in self._scanned[0]

    def line(self, steps: tuple[str | int, ...]) -> int:
        """The line of a value, or of the nearest one around it."""
        return self._position(steps)[0]

    def place(self, steps: tuple[str | int, ...]) -> str:
        """`FILE, line 3, column 7`."""
        line, column = self._position(steps)
        return f"{self.name}, line {line}, column {column}"

    @property
    def repeated(self) -> list[tuple[str | int, ...]]:
        """The ways to keys that stand twice in one object; the last one counts."""
        return self._scanned[1] if self._repeats else []

    def _position(self, steps: tuple[str | int, ...]) -> tuple[int, int]:
        offsets = self._scanned[0]
        while steps and steps not in offsets:
            steps = steps[:-1]
        offset = offsets.get(steps, 0)
        line = bisect.bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self._plain))]

    @cached_property
    def _scanned(self) -> tuple[dict[tuple[str | int, ...], int], list[tuple[str | int, ...]]]:
        """The offset of each key and each item of a list, and the keys that are repeated."""
        offsets: dict[tuple[str | int, ...], int] = {}
        repeated: list[tuple[str | int, ...]] = []
        for steps, offset in _places(self._plain):
            if steps in offsets:
                repeated.append(steps)
            offsets[steps] = offset
        known = set(repeated)
        outermost = [s for s in repeated if not any(s[:n] in known for n in range(1, len(s)))]
        return offsets, outermost


def _places(plain: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Every key and every item of a list in the text of a valid object, with its offset."""
    steps: list[str | int] = []
    in_object: list[bool] = []
    awaits_key = False
    for token in _TOKEN.finditer(plain):
        text = token[0]
        if in_object and not in_object[-1] and text not in "],:" and len(steps) <= MAX_DEPTH:
            yield tuple(steps), token.start()
        match text:
            case "{" | "[":
                in_object.append(text == "{")
                steps.append("" if text == "{" else 0)
                awaits_key = text == "{"
            case "}" | "]":
                in_object.pop()
                steps.pop()
            case ",":
                awaits_key = in_object[-1]
                last = steps[-1]
                steps[-1] = last + 1 if isinstance(last, int) else last
            case _ if awaits_key:
                steps[-1], awaits_key = json.loads(text), False
                if len(steps) <= MAX_DEPTH:
                    yield tuple(steps), token.start()


def read_object(file: Path) -> dict[str, Any] | None:
    """The object in a file, {} for an empty file, None where there is none. Raises `ConfigError`."""
    source = read_source(file)
    return None if source is None else source.content


def read_source(file: Path) -> Source | None:
    """What is in a file; None where there is none.

    Raises `ConfigError` with one sentence that names file, line and column.
    """
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise ConfigError(f"{file} cannot be read: {exc.strerror}") from exc
    return parse_source(raw, str(file))


def parse_source(raw: bytes, name: str) -> Source:
    """What is in the bytes of a file called `name`. Raises `ConfigError`."""
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{name} is larger than {MAX_FILE_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line, column = _position(raw[: exc.start].decode("utf-8", "replace"))
        raise ConfigError(f"{name}, line {line}, column {column}: not UTF-8") from exc
    plain = _STRING_OR_LAST_COMMA.sub(_blank, _STRING_OR_COMMENT.sub(_blank, text))
    if not plain.strip():
        return Source(name, {}, plain)
    repeats = False

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeats
        found = dict(pairs)
        repeats = repeats or len(found) < len(pairs)
        return found

    try:
        value = json.loads(plain, parse_constant=_refuse_constant, object_pairs_hook=made)
    except json.JSONDecodeError as exc:
        raise ConfigError(f"{name}, line {exc.lineno}, column {exc.colno}: {_lower_first(exc.msg)}") from exc
    except (ValueError, RecursionError) as exc:
        what = "nested too deeply" if isinstance(exc, RecursionError) else str(exc)
        raise ConfigError(f"{name}: {what}") from exc
    if not isinstance(value, dict):
        raise ConfigError(f"{name}, line 1, column 1: a config file holds one object")
    return Source(name, value, plain, repeats=repeats)


def _blank(match: re.Match[str]) -> str:
    """Strings stay; what else was matched becomes as much white space, so that positions stay true."""
    text = match[0]
    return text if text.startswith('"') else re.sub(r"[^\n]", " ", text)


def _position(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
