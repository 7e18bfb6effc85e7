"""What changed between two versions of a text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bullpen.files.diff import MAX_LINES, Diff, unified


def test_changed_lines_are_shown_and_counted() -> None:
    """With the lines around them, and the name on both sides."""
    text = "--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2½\n three\n"
    assert unified("one\ntwo\nthree\n", "one\n2\n2½\nthree\n", "x") == Diff(text, 2, 1)


def test_a_missing_newline_at_the_end_is_told() -> None:
    """It is a change of its own."""
    assert "-a\n\\ No newline at end of file\n+a\n" in unified("a", "a\n", "x").text


def test_no_change_is_no_diff() -> None:
    """Not even a heading."""
    assert unified("a\n", "a\n", "x") == Diff("", 0, 0)


def test_lines_that_look_like_a_heading_count() -> None:
    """A removed `-- x` is shown as `--- x`."""
    assert unified("-- x\n", "++ y\n", "x")[1:] == (1, 1)


def test_a_huge_change_is_shown_as_replaced() -> None:
    """Comparing it line by line would take seconds."""
    before = "same\n" + "a\n" * (MAX_LINES + 1) + "end\n"
    found = unified(before, "same\nb\nend\n", "x")
    assert (found.additions, found.removals) == (1, MAX_LINES + 1)
    assert found.text.startswith(f"--- a/x\n+++ b/x\n@@ -1,{MAX_LINES + 3} +1,3 @@\n same\n-a\n")


def test_a_small_change_of_a_large_text_costs_little() -> None:
    """Lines are counted from the beginning of the text, although only the surroundings are compared."""
    before = "x\n" * 3_000_000
    at = 2 * 1_500_000
    found = unified(before, before[:at] + "y\n" + before[at:], "x")
    assert (found.additions, found.removals) == (1, 0)
    assert "\n+y\n" in found.text
    assert found.text.count("\n") < 20


def test_a_change_of_very_many_lines_is_only_counted() -> None:
    """Neither does it cost the memory of all of them."""
    found = unified("a\n" * 200_000, "b\n" * 100_000, "x")
    assert (found.additions, found.removals, "too many" in found.text) == (100_000, 200_000, True)


@given(st.text("ab\n", max_size=60), st.text("ab\n", max_size=60))
def test_what_is_told_is_what_difflib_tells(before: str, after: str) -> None:
    """Leaving out what is the same at both ends changes where hunks begin at most by what surrounds them."""
    found = unified(before, after, "x")
    old, new = before.split("\n"), after.split("\n")
    shown = found.text.splitlines(keepends=True)[2:]
    assert sum(line.startswith("-") for line in shown) == found.removals
    assert _patched(before, shown) == after
    assert (found.text == "") == (old == new)


def _patched(text: str, hunks: list[str]) -> str:
    """The text with a unified diff applied to it."""
    lines = text.split("\n")
    source = [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    result: list[str] = []
    at = 0
    for number, line in enumerate(hunks):
        if line.startswith("@@"):
            start, _, length = line.split()[1][1:].partition(",")
            begin = int(start) - (length != "0")
            result += source[at:begin]
            at = begin
        elif not line.startswith("\\"):
            is_open = number + 1 < len(hunks) and hunks[number + 1].startswith("\\")
            body = line[1:-1] if is_open else line[1:]
            if line[0] != "+":
                assert source[at] == body
                at += 1
            if line[0] != "-":
                result.append(body)
    return "".join(result + source[at:])
