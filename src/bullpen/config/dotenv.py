"""The `.env` file of a project: `NAME=value` by lines. Nothing in it is expanded or run."""

from __future__ import annotations

import re

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)\"""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}

MAX_FILE_BYTES = 256 * 1024


def parse(text: str) -> dict[str, str]:
    """The variables in the order of the file; lines that are none are passed over."""
    found: dict[str, str] = {}
    for line in text.removeprefix("\ufeff").splitlines():
        match = _LINE.fullmatch(line.strip())
        if match and "\0" not in match[2]:
            found[match[1]] = _value(match[2])
    return found


def _value(text: str) -> str:
    quoted = _QUOTED.match(text)
    if quoted is None:
        return re.split(r"(?:^|\s)#", text, maxsplit=1)[0].strip()
    if quoted[1] is not None:
        return quoted[1]
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), quoted[2])
