"""Ignore files at every level, read as git reads them."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
from pathlib import Path

import pytest

from bullpen.system.ignore import MAX_BYTES, MAX_RULES, IgnoreRules

PATTERNS = r"""*.log|/build/|build/|!keep.log|a/b|a/**|**/x|a/**/b|/a|*|!*/|foo*bar|[ab].txt|[!a].txt|[^a].txt|\#x|\!y|a\ |**|/**|x/*
**/a/**|?|*.py[co]|/*|!/a|doc/*.txt|a/|/a/b/|**/|foo\*|a  |# c|]|a/**/|!a/b|b/../a|*a*b*""".replace(
    "\n", "|"
).split("|")
NAMES = [
    "a",
    "b",
    "x",
    "keep.log",
    "build",
    "a.txt",
    "c.txt",
    "#x",
    "!y",
    "foobar",
    "foo*",
    "doc",
    ".hid",
    "a.pyc",
    "a ",
]


def test_the_nearest_rule_decides(tmp_path: Path) -> None:
    """A directory may take back what the one above hides, and hide more."""
    (tmp_path / "sub").mkdir()
    (tmp_path / ".gitignore").write_text("*.log\n/build/\n")
    (tmp_path / "sub/.bullpenignore").write_text("!keep.log\nsecret\n")
    rules = IgnoreRules.between(tmp_path, tmp_path / "sub")
    hidden = {
        name: rules.hides(tmp_path / "sub" / name, is_dir=False)
        for name in ("x.log", "keep.log", "secret", "a")
    }
    assert hidden == {"x.log": True, "keep.log": False, "secret": True, "a": False}
    top = IgnoreRules(tmp_path)
    assert (top.hides(tmp_path / "build", is_dir=True), top.hides(tmp_path / "build", is_dir=False)) == (
        True,
        False,
    )


def test_clutter_is_hidden_without_being_named(tmp_path: Path) -> None:
    """Nobody wants to read node_modules."""
    assert IgnoreRules(tmp_path).hides(tmp_path / "node_modules", is_dir=True)


def test_patterns_mean_what_they_mean_to_git(tmp_path: Path) -> None:
    """Random files of them, each path walked down as a listing does."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, env=env)
    paths = ["/".join(each) for n in (1, 2) for each in itertools.product(NAMES, repeat=n)]
    for name in NAMES:
        (tmp_path / name).mkdir()
        for inner in NAMES:
            (tmp_path / name / inner).touch()
    chance = random.Random(7)
    for _ in range(25):
        lines = chance.sample(PATTERNS, chance.randint(1, 4))
        (tmp_path / ".gitignore").write_text("\n".join(lines) + "\n")
        asked = subprocess.run(
            ["git", "check-ignore", "--no-index", "-z", "--stdin"],
            input="\0".join(paths) + "\0",
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        rules = IgnoreRules(tmp_path)
        hidden = {path for path in paths if _is_hidden(rules, tmp_path, path)}
        assert hidden == set(asked.stdout.split("\0")) - {""}, lines


def _is_hidden(rules: IgnoreRules, top: Path, path: str) -> bool:
    parts = path.split("/")
    return any(rules.hides(top.joinpath(*parts[:n]), is_dir=n == 1) for n in range(1, len(parts) + 1))


@pytest.mark.parametrize("kind", ["link", "pipe", "directory", "large"])
def test_what_is_no_ignore_file_says_nothing(tmp_path: Path, kind: str) -> None:
    """A pipe was waited for without end, and a link read whatever it led to."""
    file = tmp_path / ".gitignore"
    (tmp_path / "elsewhere").write_text("x\n")
    match kind:
        case "link":
            file.symlink_to(tmp_path / "elsewhere")
        case "pipe":
            os.mkfifo(file)
        case "directory":
            file.mkdir()
        case _:
            file.write_text("x\n" * MAX_BYTES)
    assert not IgnoreRules(tmp_path).hides(tmp_path / "x", is_dir=False)


def test_a_file_has_a_last_rule(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("first\n" + "other\n" * (MAX_RULES - 1) + "last\n")
    rules = IgnoreRules(tmp_path)
    assert (rules.hides(tmp_path / "first", is_dir=False), rules.hides(tmp_path / "last", is_dir=False)) == (
        True,
        False,
    )
