"""What is asked, as people are to see it: the real call, with everything hidden in it made visible.

The text of a call comes from a model, and the model may have it from a stranger. Whoever approves must see what runs: characters
that show nothing, change the direction of writing or move the cursor are replaced by their names, letters that only look like
others are told, and text that is pushed out of sight by its length or by blank space is told too.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

LONG_LINE = 2000
LONG_TEXT = 20_000
MANY_LINES = 400
_BLANKS = re.compile(r"[ \t\u00a0\u2000-\u200a\u202f\u205f\u3000]{40,}|(?:\n[ \t]*){12,}")
_ANSI = re.compile(r"\x1b[\[\]PX^_][^\x07\x1b]{0,200}")

_KINDS = (
    (
        "direction",
        "characters that change the direction of writing",
        "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069",
    ),
    (
        "invisible",
        "characters that show nothing",
        # Soft hyphen, fillers, selectors, zero width, tags, and the marks of musical notation.
        (
            "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u2800\u3164\ufe00-\ufe0f"
            "\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff\U0001d173-\U0001d17a"
        ),
    ),
    ("control", "control characters", "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029"),
    ("blank", "blanks that are none to the shell", "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"),
    ("half", "halves of characters", "\ud800-\udfff"),
    ("private", "characters without a meaning of their own", "\ue000-\uf8ff\U000f0000-\U0010ffff"),
)
_HIDDEN = re.compile("[" + "".join(kind[2] for kind in _KINDS) + "]")
_EACH = [(words, re.compile(f"[{characters}]")) for _, words, characters in _KINDS]
_LOOKALIKE = re.compile(
    r"[A-Za-z][\u0370-\u03ff\u0400-\u052f\u0530-\u058f\u13a0-\u13ff\uff01-\uff5e]|[\u0370-\u03ff\u0400-\u052f\u0530-\u058f\u13a0-\u13ff\uff01-\uff5e][A-Za-z]"
)
_FORGED = re.compile(
    r"^(?:[^\w\n]*+(?:\d[^\w\n]++)?(?:allow(?:ed)?\b.{0,40}(?:once|session|always)|deny\b|the model says|user (?:approved|granted)"
    r"|permission granted|approved by|bullpen:|system:)|[^\w\n?]*+\? \w{1,80} asks to)",
    re.IGNORECASE | re.MULTILINE,
)
"""Looked for line by line, and nothing is tried twice: a text of many empty lines would take the square of their number."""

MODEL_SAYS = frozenset({"description"})
"""Arguments that are the model's own words about the call, and nothing that runs."""


def visible(text: str) -> str:
    """The text with every hidden character replaced by its number."""
    return _HIDDEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def warnings_about(params: Any, description: str) -> tuple[str, ...]:
    """What is hidden or odd in what is asked, in sentences; none for what is plain to see."""
    texts = list(_texts(params if params is not None else description))
    found: list[str] = []
    for words, pattern in _EACH:
        count = sum(len(pattern.findall(text)) for text in texts)
        if count:
            found.append(f"contains {count} {words}, shown as <U+…>")
    if any(_ANSI.search(text) for text in texts):
        found.append("contains a terminal escape sequence")
    if any(_LOOKALIKE.search(unicodedata.normalize("NFC", text)) for text in texts):
        found.append("mixes letters of two alphabets in one word, which may look like another word")
    if any(_marks(text) for text in texts):
        found.append("stacks marks on letters")
    if any(_BLANKS.search(text) for text in texts):
        found.append("contains much blank space, with text behind it")
    if any(len(line) > LONG_LINE for text in texts for line in text.split("\n")):
        found.append(f"contains a line of more than {LONG_LINE} characters")
    if any(len(text) > LONG_TEXT or text.count("\n") > MANY_LINES for text in texts):
        found.append("is very long; read it to its end before you allow it")
    if any(_FORGED.search(text) for text in texts):
        found.append("contains text that looks like this dialog; it is the model's, not Bullpen's")
    return tuple(found)


def rendered(params: Any, description: str) -> str:
    """The call in full: each argument by name, the model's own words marked as such."""
    if not isinstance(params, dict):
        return visible(
            params if isinstance(params, str) else description if params is None else _json(params)
        )
    lines = []
    for key, value in params.items():
        text = value if isinstance(value, str) else _json(value)
        mark = " (the model's words)" if key in MODEL_SAYS else ""
        first, *rest = visible(text).split("\n")
        lines += [f"{visible(str(key))}{mark}: {first}", *(f"    {line}" for line in rest)]
    return "\n".join(lines)


def _texts(value: Any, depth: int = 0) -> list[str]:
    if isinstance(value, str):
        return [value]
    if depth > 20:
        return []
    if isinstance(value, dict):
        return [t for k, v in value.items() for t in (*_texts(str(k), depth + 1), *_texts(v, depth + 1))]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item, depth + 1)]
    return []


def _marks(text: str) -> bool:
    run = 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) else 0
        if run >= 4:
            return True
    return False


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
