"""What changed between two versions of a text."""

from __future__ import annotations

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
    assert found.text.startswith(f"--- a/x\n+++ b/x\n@@ -2,{MAX_LINES + 1} +2,1 @@\n-a\n")
