"""Finding what a model meant to replace."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.errors import ToolFailed
from bullpen.files import matching, texts

FEW = "ab \t\n"
"""So few characters that matches are common."""


def changed(text: str, old: str, new: str, *, replace_all: bool = False) -> str:
    return texts.replaced(text, matching.find(text, old, new, replace_all=replace_all).spans)


def reason(text: str, old: str) -> str:
    with pytest.raises(ToolFailed) as failed:
        matching.find(text, old, "new")
    return failed.value.message


@given(st.text(FEW), st.text(FEW, min_size=1, max_size=4), st.text("ab\n", max_size=4))
def test_an_exact_match_wins_and_is_what_replace_does(text: str, old: str, new: str) -> None:
    """Without `replace_all` it must be the only one."""
    if old not in text:
        return
    assert changed(text, old, new, replace_all=True) == text.replace(old, new)
    if text.count(old) == 1:
        assert changed(text, old, new) == text.replace(old, new)
    else:
        assert f"{text.count(old)} times" in reason(text, old)


@given(
    st.lists(st.text("xyz \t", max_size=8), max_size=6),
    st.lists(st.text("ab \t", min_size=1, max_size=8), min_size=1, max_size=4),
    st.lists(st.text("xyz \t", max_size=8), max_size=6),
    st.data(),
)
def test_other_lines_are_never_touched(
    above: list[str], middle: list[str], below: list[str], data: st.DataObject
) -> None:
    """However the whitespace of the lines that are meant was mistaken."""
    blank = st.sampled_from(["", " ", "\t", "    "])
    mistaken = [
        data.draw(blank) + " ".join(line.split()) + data.draw(blank) if line.strip() else line
        for line in middle
    ]
    text = "\n".join([*above, *middle, *below])
    try:
        after = changed(text, "\n".join(mistaken), "new")
    except ToolFailed:
        return
    lines = after.split("\n")
    assert "new" in after
    if any(line.strip() for line in middle) and "\n".join(mistaken) not in text:
        kept = lines[: len(above)] + lines[len(above) + 1 :]
        assert kept == [*above, *below]


@given(st.lists(st.sampled_from(["one", "two", "  three", ""]), min_size=1), st.booleans(), st.data())
def test_line_ends_stay_as_they_are(lines: list[str], with_mark: bool, data: st.DataObject) -> None:
    """Also in a file that has both kinds, and with a byte order mark."""
    ends = [data.draw(st.sampled_from(["\n", "\r\n"])) for _ in lines]
    content = (texts.BOM if with_mark else "") + "".join(a + b for a, b in zip(lines, ends, strict=True))
    plain = texts.plain(content)
    assert plain == "".join(f"{line}\n" for line in lines)
    start = data.draw(st.integers(0, len(plain)))
    end = data.draw(st.integers(start, len(plain)))
    after = texts.replaced(content, [texts.Span(start, end, "NEW")])
    assert texts.plain(after) == plain[:start] + "NEW" + plain[end:]
    before, _, behind = after.partition("NEW")
    assert content.startswith(before)
    assert content.endswith(behind)


def test_new_lines_end_as_those_around_them() -> None:
    """Whatever the model sent."""
    found = matching.find("a\nb\n", "a\nb", "1\n2\n3").spans
    assert texts.replaced("a\r\nb\r\n", found) == "1\r\n2\r\n3\r\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("if a:\n\tb()\n\tc()\n", "    b()\n    c()", "    b()\n    if d:\n        e()", "if a:\n\tb()\n\tif d:\n\t\te()\n"),
        ("class A:\n    def f(self):\n        pass\n", "def f(self):\n    pass\n", "def f(self):\n    return 1\n",
         "class A:\n    def f(self):\n        return 1\n"),
        ("a = 1\nb  =  2\n", "a  = 1\nb = 2", "a = 2\n\nb = 3", "a = 2\n\nb = 3\n"),
        ("x\nfoo()   \nbar()\n", "foo()\nbar()\n", "baz()\n", "x\nbaz()\n"),
        ("f(\n  a,\n  b,\n)\n", "f(\n    a,\n    b,\n)", "f(\n    a,\n    {\n        c,\n    },\n)",
         "f(\n  a,\n  {\n    c,\n  },\n)\n"),
        ("say(“hello – you”)\n", 'say("hello - you")', 'shout("hello - you")', "shout(“hello – you”)\n"),
        ('print("a")\nprint("b")\n', 'print(\\"a\\")\\nprint(\\"b\\")', 'print(\\"c\\")', 'print("c")\n'),
        ('x = "a"\ny = 1\n', 'x = \\"a\\"\ny = 1', 'x = \\"b\\"\ny = 1', 'x = "b"\ny = 1\n'),
        ("one\n  two\n", "     1|one\n     2|  two", "     1|1\n     2|  2", "1\n  2\n"),
    ],
    ids=["blanks for tabs", "too far left", "inner blanks", "blanks at the end", "other width", "typographic",
         "escaped", "escaped quotes", "line numbers"],
)  # fmt: skip
def test_slips_are_overlooked(text: str, old: str, new: str, after: str) -> None:
    """And the model is told."""
    found = matching.find(text, old, new)
    assert texts.replaced(text, found.spans) == after
    assert found.note


def test_what_is_there_twice_but_for_whitespace_is_not_guessed() -> None:
    """Unless all are meant."""
    text = "\tgo( a )\n\tstop\n    go( a )\n"
    assert "2 times (lines 1, 3)" in reason(text, " go( a )\n".strip("\n") + " ")
    assert changed(text, " go( a ) ", " run()", replace_all=True).count("run()") == 2


def test_what_is_nearest_is_shown() -> None:
    """With line numbers, visible whitespace and a mark on what differs."""
    text = "def f():\n\tone()\n\ttwo()\n\tthree()\n"
    told = reason(text, "\tone()\n\ttwo(2)\n\tthree()")
    assert "lines 2 to 4" in told
    assert "≠     3|→two()\n" in told
    assert "      2|→one()\n" in told


def test_a_line_that_shares_words_is_shown() -> None:
    """Where no line is the same."""
    assert "≠     2|··return total_of(items, tax)" in reason(
        "def f():\n  return total_of(items, tax)\n", "return total_of(items)"
    )
    assert "View the file again" in reason("nothing alike\n", "something else")


BOMBS = {
    "one letter": ("a" * 10_000_000, "a" * 5_000_000 + "b"),
    "alternating": ("ab" * 5_000_000, "ab" * 100_000 + "c"),
    "empty lines": ("\n" * 10_000_000, "\n" * 50 + "x"),
    "same lines": ("x y\n" * 49_000, "x  y\n" * 40_000 + "z"),
    "same words": ("x y z " * 300_000, "x y z w " * 1000),
    "blanks": (" " * 1_900_000, " " * 1000 + "x"),
    "backslashes": ("\\" * 1_900_000, "\\" * 500_001 + '"x'),
    "once too often": ("a" * 10_000_000, "a"),
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.timeout(20)
def test_no_text_takes_more_than_its_size(name: str) -> None:
    """Neither time, which the limit of the test guards, nor memory."""
    text, old = BOMBS[name]
    tracemalloc.start()
    try:
        told = reason(text, old)
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert len(told) < 10_000
