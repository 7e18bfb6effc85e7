from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.config.jsonc import parse_source, read_object
from bullpen.errors import ConfigError

WRITTEN = b"""\xef\xbb\xbf{
  // who answers
  "models": {"large": {"model": "a//b", "provider": "x /* no */"},},
  /* several
     lines */ "list": [1, 2, // two
  ],
}
"""


def test_comments_and_trailing_commas() -> None:
    models = {"large": {"model": "a//b", "provider": "x /* no */"}}
    assert parse_source(WRITTEN, "f").content == {"models": models, "list": [1, 2]}


@pytest.mark.parametrize("empty", [b"", b" \n", b"// nothing yet\n"])
def test_an_empty_file_says_nothing(empty: bytes) -> None:
    assert parse_source(empty, "f").content == {}


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b'{\n  "a": 1\n  "b": 2\n}', "f, line 3, column 3: expecting ',' delimiter"),
        (b'{"a": /* x\n y */ oops}', "f, line 2, column 7: expecting value"),
        (b'{"a": "\xff"}', "f, line 1, column 8: not UTF-8"),
        (b"[1]", "f, line 1, column 1: a config file holds one object"),
        (b'{"a": NaN}', "f: NaN is not JSON"),
        (b"{" * 10, "f, line 1, column 2: expecting property name enclosed in double quotes"),
        (b'{"a": ' * 100_000, "f: nested too deeply"),
        (b" " * (2 << 20), "f is larger than 1048576 bytes"),
    ],
    ids=range(8),
)
def test_an_error_says_where(raw: bytes, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_source(raw, "f")
    assert str(caught.value) == sentence


def test_files(tmp_path: Path) -> None:
    """Missing is None; what cannot be read is told in one sentence."""
    assert read_object(tmp_path / "none") is None
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_object(tmp_path)


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.text() | st.integers(), st.lists)))
def test_plain_json_is_read_as_it_is(value: dict[str, object]) -> None:
    assert parse_source(json.dumps(value).encode(), "f").content == value
    assert (
        parse_source(json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "replace"), "f")
        is not None
    )


@pytest.mark.parametrize("piece", [b"/*", b'"', b'\\"', b",", b", ", b"//"])
def test_hostile_files_are_read_in_no_time(piece: bytes) -> None:
    """X-26: no pattern here takes more than linear time."""
    began = time.process_time()
    with pytest.raises(ConfigError):
        parse_source(b'{"a": ' + piece * ((1 << 20) // len(piece) - 8) + b"!", "f")
    assert time.process_time() - began < 5


def test_everything_has_a_place() -> None:
    """Lines and columns count from one; what is not there has the place of what is around it."""
    source = parse_source(b'// c\n{"a": {"b": [1, {"c": 2}]},\n /* x */ "d": 1, "a": {"e": 5},}', "f")
    assert source.content == {"a": {"e": 5}, "d": 1}
    assert source.repeated == [("a",)]
    assert source.place(("d",)) == "f, line 3, column 10"
    assert source.place(("a", "e", "gone")) == "f, line 3, column 24"
    assert source.place(("a", "b", 1, "c")) == "f, line 2, column 18"
    assert source.place(()) == "f, line 1, column 1"
