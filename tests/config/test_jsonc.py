from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.config.jsonc import parse_object, read_object
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
    assert parse_object(WRITTEN, "f") == {"models": models, "list": [1, 2]}


@pytest.mark.parametrize("empty", [b"", b" \n", b"// nothing yet\n"])
def test_an_empty_file_says_nothing(empty: bytes) -> None:
    assert parse_object(empty, "f") == {}


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
        parse_object(raw, "f")
    assert str(caught.value) == sentence


def test_files(tmp_path: Path) -> None:
    """Missing is None; what cannot be read is told in one sentence."""
    assert read_object(tmp_path / "none") is None
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_object(tmp_path)


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.text() | st.integers(), st.lists)))
def test_plain_json_is_read_as_it_is(value: dict[str, object]) -> None:
    assert parse_object(json.dumps(value).encode(), "f") == value
    assert (
        parse_object(json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "replace"), "f")
        is not None
    )


@pytest.mark.parametrize("piece", [b"/*", b'"', b'\\"', b",", b", ", b"//"])
def test_hostile_files_are_read_in_no_time(piece: bytes) -> None:
    """X-26: no pattern here takes more than linear time."""
    began = time.process_time()
    with pytest.raises(ConfigError):
        parse_object(b'{"a": ' + piece * ((1 << 20) // len(piece) - 8) + b"!", "f")
    assert time.process_time() - began < 5
