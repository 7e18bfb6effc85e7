"""Edits that servers want."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bullpen.errors import LanguageServerFailed
from bullpen.lsp.edits import apply, read_edits


def edit(line: int, start: int, end: int, text: str) -> dict[str, Any]:
    return {
        "range": {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}},
        "newText": text,
    }


def test_edits_are_made_in_any_order_and_by_units() -> None:
    text = "😀 old\r\nold, old\r\n"
    edits = [edit(1, 5, 8, "new"), edit(0, 3, 6, "new"), edit(1, 0, 3, "new")]
    assert apply(text, edits, "utf-16", expects="old") == "😀 new\r\nnew, new\r\n"


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ([edit(0, 0, 4, "x"), edit(0, 0, 3, "y")], "overlap"),
        ([edit(0, 3, 1, "x")], "ends before it begins"),
        ([edit(0, 0, 2, "x")], "another state of the file"),
        ([{"newText": "x"}], "cannot be understood"),
        ([{"range": {}, "newText": 3}], "cannot be understood"),
    ],
)
def test_edits_that_do_not_fit_are_refused(edits: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(LanguageServerFailed, match=why):
        apply("old and more", edits, "utf-16", expects="old")


def test_both_forms_of_an_answer_are_read() -> None:
    edits = [edit(0, 0, 1, "x")]
    wanted = {Path("/w/a b"): edits}
    assert read_edits({"changes": {"file:///w/a%20b": edits}}) == wanted
    assert (
        read_edits({"documentChanges": [{"textDocument": {"uri": "file:///w/a%20b"}, "edits": edits}]})
        == wanted
    )


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"documentChanges": [{"kind": "delete", "uri": "file:///w/a"}]},
        {"documentChanges": [3]},
        {"changes": {"untitled:a": []}},
        {"changes": {"file:///w/a": 3}},
        {"changes": {f"file:///w/{number}": [edit(0, 0, 0, "x")] for number in range(501)}},
    ],
)
def test_more_than_edits_of_texts_is_refused(answer: Any) -> None:
    with pytest.raises(LanguageServerFailed):
        read_edits(answer)
