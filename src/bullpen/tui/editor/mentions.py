"""What `@` and `/` mean in the text: what is being typed at the caret, and what a finished text mentions."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

_MENTION = re.compile(
    r'(?<!\S)@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s"]+?))(?::(?P<lines>\d+(?:-\d+)?))?(?=[\s,.;!?)]*(?:\s|$))'
)
_TYPING = re.compile(r'(?:^|(?<=\s))@(?:"(?P<quoted>[^"\n]*)|(?P<bare>[^\s"]*))$')
_RANGE = re.compile(r":(\d+(?:-\d*)?)?$")
_COMMAND = re.compile(r"/(?P<name>[^\s/]*)$")
_HINTED = re.compile(r"/(?P<name>[^\s/]+)\s")


class Typing(NamedTuple):
    """What a list may complete: from column `start` of the caret's line on. `lines` is a range that was typed behind a path."""

    kind: Literal["mention", "command"]
    start: int
    query: str
    lines: str = ""


def typing(text: str, row: int, column: int) -> Typing | None:
    """What is being typed at the caret, if a list could help."""
    line = text.split("\n")[row][:column]
    if row == 0 and (command := _COMMAND.match(line)) and not text.startswith("//"):
        return Typing("command", 0, command["name"])
    found = _TYPING.search(line)
    if found is None:
        return None
    query = found["bare"] if found["quoted"] is None else found["quoted"]
    lines = _RANGE.search(query)
    if lines:
        return Typing("mention", found.start(), query[: lines.start()], lines[1] or "")
    return Typing("mention", found.start(), query)


def hinted(text: str, row: int) -> str:
    """The command whose words are being typed."""
    found = _HINTED.match(text) if row == 0 else None
    return found["name"] if found else ""


class Mention(NamedTuple):
    """Something that the text names with an `@`. `lines` is "", "7" or "10-20"."""

    name: str
    lines: str

    @property
    def shown(self) -> str:
        return f"{self.name}:{self.lines}" if self.lines else self.name


def mentions(text: str) -> list[Mention]:
    """All of a text, each once."""
    found = (Mention(each["quoted"] or each["bare"], each["lines"] or "") for each in _MENTION.finditer(text))
    return list(dict.fromkeys(found))


def written(name: str, lines: str = "") -> str:
    """How a text mentions a name."""
    quoted = f'"{name}"' if re.search(r"[\s:]", name) else name
    return f"@{quoted}:{lines.rstrip('-')}" if lines else f"@{quoted}"
