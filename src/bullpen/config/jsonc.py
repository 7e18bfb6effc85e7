"""JSON as people write it: comments and trailing commas are fine, and an error says where it is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bullpen.errors import ConfigError

MAX_FILE_BYTES = 1 << 20
"""A config file is small; more is an accident or an attack."""

# The closing marks are optional: what is left open is matched to its end once, and so costs linear time.
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"?|,(?=[ \t\r\n]*[}\]])', re.DOTALL)


def read_object(file: Path) -> dict[str, Any] | None:
    """The object in a file, {} for an empty file, None where there is none.

    Raises `ConfigError` with one sentence that names file, line and column.
    """
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise ConfigError(f"{file} cannot be read: {exc.strerror}") from exc
    return parse_object(raw, str(file))


def parse_object(raw: bytes, name: str) -> dict[str, Any]:
    """The object in the bytes of a file called `name`. Raises `ConfigError`."""
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{name} is larger than {MAX_FILE_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line, column = _position(raw[: exc.start].decode("utf-8", "replace"))
        raise ConfigError(f"{name}, line {line}, column {column}: not UTF-8") from exc
    plain = _STRING_OR_LAST_COMMA.sub(_blank, _STRING_OR_COMMENT.sub(_blank, text))
    if not plain.strip():
        return {}
    try:
        value = json.loads(plain, parse_constant=_refuse_constant)
    except json.JSONDecodeError as exc:
        raise ConfigError(f"{name}, line {exc.lineno}, column {exc.colno}: {_lower_first(exc.msg)}") from exc
    except (ValueError, RecursionError) as exc:
        what = "nested too deeply" if isinstance(exc, RecursionError) else str(exc)
        raise ConfigError(f"{name}: {what}") from exc
    if not isinstance(value, dict):
        raise ConfigError(f"{name}, line 1, column 1: a config file holds one object")
    return value


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
