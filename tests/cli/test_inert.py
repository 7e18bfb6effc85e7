"""Foreign text on a terminal does nothing but be read."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.plain.terminal import len_in_columns
from bullpen.present.inert import cut, inert, inert_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\tindented", "plain\n    indented"),
        ("\x1b[31mred\x1b]0;title\x07", "␛[31mred␛]0;title␇"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("\x9b31m", "<U+009B>31m"),
        ("abc\u202ecba", "abc<U+202E>cba"),
        ("a\u200bb\ufeff", "a<U+200B>b<U+FEFF>"),
        ("tag\U000e0041", "tag<U+E0041>"),
        ("\x7f\x00", "␡␀"),
        ("half \ud800", "half <U+D800>"),
        ("ümläut 漢字 👩‍👩‍👧", "ümläut 漢字 👩‍👩‍👧"),
    ],
)
def test_what_a_terminal_would_obey_becomes_visible(text: str, shown: str) -> None:
    """Letters of all kinds stay as they are."""
    assert inert(text) == shown


@given(st.text(st.characters()))
def test_nothing_that_controls_is_left(text: str) -> None:
    """No control, no direction mark, no tag, whatever the text."""
    left = {c for c in inert(text) if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}}
    assert left <= {"\n"}
    marks = {"\u061c", "\u200e", "\u200f", *map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}
    assert not marks.intersection(inert(text))


@given(st.text(st.characters(), max_size=30))
def test_a_line_is_one_line(text: str) -> None:
    assert "\n" not in inert_line(text)


@given(st.text("aü漢 ", max_size=30), st.integers(2, 20))
def test_cut_text_fits(text: str, width: int) -> None:
    """A mark shows that something is missing."""
    shown = cut(text, width)
    assert len_in_columns(shown) <= width
    assert shown == text or shown.endswith("…")
