"""Patterns for paths."""

from __future__ import annotations

import pytest

from bullpen.system import globs
from bullpen.system.globs import BadPattern, Glob


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.py", "a.py b.py", "a/b.py a.pyc .py .a.py"),
        ("**/*.py", "a.py x/a.py x/y/a.py", "x/a.js .x/a.py x/.a.py"),
        ("src/**", "src/a src/a/b", "a src2/a src/.git/a"),
        ("src/**/t/*.{ts,tsx}", "src/t/a.ts src/x/y/t/a.tsx", "src/a.ts src/t/a.js"),
        ("{a,b/{c,d}}/*", "a/x b/c/x b/d/x", "b/x c/x"),
        (".github/**/*.yml", ".github/a.yml .github/w/a.yml", "github/a.yml a.yml"),
        ("[!a]?[0-9]", "bx1", "ax1 bx"),
        ("a[b", "a[b", "ab"),
        ("./x//y", "x/y", "x"),
        ("**/**/a", "a x/a", "b"),
    ],
)
def test_a_pattern_is_matched_name_by_name(pattern: str, matching: str, others: str) -> None:
    """Names with a dot only where the pattern says so."""
    glob = Glob(pattern)
    assert [path for path in matching.split() if not glob.matches(path)] == []
    assert [path for path in others.split() if glob.matches(path)] == []


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("src/a/*.py", ("src/a", "*.py")),
        ("*.py", ("", "*.py")),
        ("/etc/*.conf", ("/etc", "*.conf")),
        ("/*", ("/", "*")),
        ("a/b.py", ("a", "b.py")),
        ("x{a/b,c}/d", ("", "x{a/b,c}/d")),
    ],
)
def test_a_search_begins_at_what_is_certain(pattern: str, parts: tuple[str, str]) -> None:
    """The rest is never empty."""
    assert globs.split(pattern) == parts


@pytest.mark.timeout(10)
def test_no_pattern_explodes() -> None:
    """Neither many stars, nor many directories, nor many braces."""
    assert not Glob("*a" * 200 + "b").matches("a" * 250)
    assert not Glob("**/a/" * 100 + "b").matches("/".join("a" * 500))
    with pytest.raises(BadPattern):
        Glob("{a,b}" * 30)
    with pytest.raises(BadPattern):
        Glob("a" * 2000)


def test_ripgrep_is_given_only_names_that_both_understand() -> None:
    """Anything else is looked at here alone."""
    found = [globs.name_filter(p) for p in ("**/*.{ts,tsx}", "a/**", "[ab].py", "{a/b,c}", "{a", "**x", "x")]
    assert found == ["*.{ts,tsx}", "", "", "", "", "", "x"]
