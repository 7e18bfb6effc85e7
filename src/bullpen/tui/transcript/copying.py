"""Items as text that is good to paste somewhere: what was said as it was written, calls as Markdown."""

from __future__ import annotations

import json
import re

from bullpen.tui.transcript import ansi
from bullpen.tui.transcript.items import Call, Item, Shell
from bullpen.tui.transcript.tools import change_of, facts_of, header_of


def copied(item: Item) -> str:
    """The whole item, however little of it is shown."""
    match item:
        case Call():
            return _call(item)
        case Shell():
            return f"$ {item.command}\n{ansi.plain(item.output)}"
        case _:
            return item.text


def _call(item: Call) -> str:
    facts = facts_of(item.call, item.result)
    parts = [f"## {header_of(item.call, facts).name}"]
    parts += [
        f"- {key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in facts.arguments.items()
        if key not in ("old_string", "new_string", "content", "edits")
    ]
    if (change := change_of(facts)) is not None:
        parts += ["", _fenced(change.text, "diff")]
    elif item.result is not None:
        parts += ["", _fenced(ansi.plain(item.result.content), "")]
    return "\n".join(parts)


def _fenced(text: str, language: str) -> str:
    """In a fence that is longer than any within it."""
    marks = "`" * max(3, *(len(run) + 1 for run in re.findall("`{3,}", text)), 3)
    return f"{marks}{language}\n{text.rstrip()}\n{marks}"
