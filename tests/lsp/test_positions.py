"""Lines and columns of the protocol against those of people."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.lsp.positions import Encoding, Place, Text, units

TEXTS = st.text(st.sampled_from("ab é😀𝒳\r\n\t"), max_size=40)
ENCODINGS: list[Encoding] = ["utf-8", "utf-16", "utf-32"]


@given(text=TEXTS, encoding=st.sampled_from(ENCODINGS), data=st.data())
def test_a_place_comes_back_as_it_went(text: str, encoding: Encoding, data: st.DataObject) -> None:
    lookup = Text(text, encoding)
    line = data.draw(st.integers(0, lookup.line_count - 1))
    column = data.draw(st.integers(0, len(lookup.line(line))))
    wire = lookup.to_wire(Place(line, column))
    assert lookup.from_wire(wire) == (line, column)
    assert text[lookup.start_of(line) : lookup.offset(wire)] == lookup.line(line)[:column]


@pytest.mark.parametrize(("encoding", "count"), [("utf-8", 7), ("utf-16", 4), ("utf-32", 3)])
def test_units_of_an_encoding(encoding: Encoding, count: int) -> None:
    assert units("aé😀", encoding) == count


def test_a_column_within_a_character_is_its_beginning() -> None:
    assert Text("😀x").from_wire({"line": 0, "character": 1}) == (0, 0)
    assert Text("😀x").from_wire({"line": 0, "character": 2}) == (0, 1)


@pytest.mark.parametrize(
    "position",
    [
        None,
        [],
        {},
        {"line": -1, "character": 10**30},
        {"line": "x"},
        {"line": 10**6},
        {"line": True, "character": 99},
    ],
)
def test_what_is_no_place_is_somewhere_in_the_text(position: Any) -> None:
    assert 0 <= Text("ab\ncd").offset(position) <= 5


def test_lines_end_as_the_protocol_says() -> None:
    text = Text("a\rb\r\nc\nd\u2028e")
    assert [text.line(number) for number in range(text.line_count)] == ["a", "b", "c", "d\u2028e"]
    assert text.line(99) == ""
