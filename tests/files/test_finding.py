"""Which path is meant by a few letters."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.files.finding import best, with_folders

FILES = [
    "README.md",
    "src/app/main.py",
    "src/main_test.py",
    "docs/main/index.md",
    "src/domain.py",
    "x/m/a/i/n.txt",
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "main",
            ["src/app/main.py", "docs/main/", "src/main_test.py", "docs/main/index.md", "src/domain.py"],
        ),
        ("MAIN.PY", ["src/app/main.py"]),
        ("readme", ["README.md"]),
        ("src/", ["src/", "src/app/", "src/domain.py", "src/main_test.py", "src/app/main.py"]),
        ("app/m", ["src/app/main.py"]),
        ("sdom", ["src/domain.py"]),
        ("nothing like it", []),
        ("", ["x/", "src/", "docs/", "README.md", "x/m/"]),
    ],
)
def test_the_nearest_name_comes_first(query: str, expected: list[str]) -> None:
    found = best(with_folders(FILES), query, 6)
    assert found[: len(expected)] == expected
    assert bool(found) == bool(expected)


@given(st.lists(st.text("ab/.[]^-\\*", min_size=1, max_size=8)), st.text("ab/.[]^-\\*", max_size=6))
def test_any_query_over_any_names_finds_what_holds_its_letters(paths: list[str], query: str) -> None:
    found = best(with_folders(paths), query, 1000)
    for path in paths:
        rest = iter(path)
        if all(letter in rest for letter in query.removeprefix("./")):
            assert path in found


def test_a_query_made_to_be_slow_is_not() -> None:
    names = with_folders(["a" * 200] * 2000)
    began = time.process_time()
    best(names, "a" * 100 + "b", 10)
    assert time.process_time() - began < 2
