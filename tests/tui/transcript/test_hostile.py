"""X-20: whatever a model, a file or a program says, nothing of it is obeyed by the terminal, and none of it takes for ever."""

import json
import re

import pytest
from rich.cells import cell_len
from tests.tui.transcript.scenes import answer, call, items, prompt, result, said, scene

from bullpen.schema.message import (
    BORN_FINISHED,
    Binary,
    BinaryPart,
    Message,
    Reasoning,
    ReasoningPart,
    ShellCommand,
    ShellCommandPart,
    new_message,
)
from bullpen.tui.transcript.copying import copied
from bullpen.tui.transcript.drawing import draw, estimate

UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)

# Signs that open something come as often as the parser is let to see them; more of them is the megabyte's matter.
CORPUS = {
    "colours": "\x1b[31mred\x1b[0m \x1b[8mhidden\x1b[0m \x9b31m",
    "title": "\x1b]0;owned\x07\x1b]2;x\x1b\\",
    "link": "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "open string": "\x1bP" + "q" * 5_000,
    "cursor": "\x1b[2J\x1b[H\x1b[?1049l\x08\x08\x08\r\x0b\x0c",
    "direction": "abc\u202edcba\u202c \u2066x\u2069 \u200f",
    "invisible": "a\u200bb\u2060c\ufeffd\U000e0041e",
    "entities": "&#27;[31m &#x202e;abc &#x200b; &#155;",
    "marks": "z" + "\u0301" * 2_000,
    "wide": "漢字かな交じり文" * 100 + "👨‍👩‍👧‍👦" * 50,
    "halves": "\ud800\udfff",
    "nested quotes": ">" * 5_000 + "x",
    "nested lists": "\n".join(" " * n + "- x" for n in range(60)),
    "brackets": "[" * 1_400,
    "links": "[a](" * 400,
    "emphasis": "*a **a " * 450,
    "backticks": "".join("`" * n + " " for n in range(50)),
    "ticks": "`" * 1_400,
    "entities bomb": "&" * 1_400,
    "table": "|" + "a|" * 60 + "\n|" + "-|" * 60 + "\n" + ("|" + "b|" * 60 + "\n") * 20,
    "long table": "|a|b|\n|-|-|\n" + "|c|d|\n" * 450,
    "blank lines": "\n" * 3_000,
    "fence": "```python\n" + "('" * 3_000,
    "escapes": "\\" * 1_400,
    "sequences": "\x1b[31m" * 1_000,
}


def every_kind(text: str) -> list[Message]:
    """The text wherever text can stand."""
    hooks = {"hook": {"hooks": [{"name": text[:500], "decision": "deny", "reason": text[:500]}]}}
    thought = ReasoningPart(data=Reasoning(thinking=text, signature=""))
    shell = ShellCommandPart(data=ShellCommand(command=text[:5_000], output=text, exit_code=1))
    changed = json.dumps({"old_content": "a\n", "new_content": text[:200_000]})
    return [
        prompt(text, BinaryPart(data=Binary(path=text[:500], mime_type="x", data=b"")), author=text[:500]),
        new_message("user", "s", (shell, BORN_FINISHED), 0),
        answer(thought, said(text), call(text[:200], text, "c0"), reason="tool_use"),
        result(text, hooks, "c0"),
        answer(call("bash", {"command": text}, "c1"), reason="tool_use"),
        result(text, {"output": text}, "c1"),
        answer(call("view", {"file_path": text[:500] + ".py"}, "c2"), reason="tool_use"),
        result(text, {"content": text, "file_path": "x.py"}, "c2"),
        answer(call("edit", {"file_path": "x.py"}, "c3"), reason="tool_use"),
        result(text, changed, "c3"),
        answer(call("agent", {"prompt": text}, "c4"), reason="tool_use"),
        result(text, "", "c4"),
        answer(call("todos", {}, "c5"), reason="tool_use"),
        result(text, {"todos": [{"content": text[:2_000], "status": "pending"}]}, "c5"),
        answer(call("grep", {"pattern": text}, "c6"), reason="tool_use"),
        result(text, text, "c6", is_error=True),
        answer(said(text), reason="error", message=text[:500], details=text[:5_000]),
    ]


@pytest.mark.parametrize("name", CORPUS)
def test_nothing_reaches_the_screen_but_what_can_be_read(name: str) -> None:
    for item in items(*every_kind(CORPUS[name])):
        for unfolded in (set(), {item.key}):
            drawn = draw(item, scene(61, unfolded=unfolded))
            text = "".join(strip.text for strip in drawn)
            assert drawn
            assert estimate(item, 61) > 0
            assert not UNSAFE.search(text)
            assert not any(segment.style and segment.style.link for segment in drawn[0])
            if name not in ("marks", "wide"):
                assert cell_len(text) == 61 * len(drawn)
        assert isinstance(copied(item), str)


@pytest.mark.parametrize("text", ["x" * 1_000_000, "word " * 200_000, "y\n" * 500_000, "\x1b[3m" * 200_000])
def test_a_megabyte_is_drawn_as_far_as_anybody_reads(text: str) -> None:
    """What is left out is counted, and part of the copy."""
    asked = answer(said(text), call("bash", {"command": text}), reason="tool_use")
    for item in items(prompt(text), asked, result(text, {"output": text})):
        assert 1 < len(draw(item, scene(80, unfolded={item.key}))) < 5_000
        assert len(copied(item)) >= len(text) / 5
