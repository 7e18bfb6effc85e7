"""Targets that run code later need an approval of their own, by tools and by shell, also to create them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.conftest import Figure

from bullpen.asks.deciding import Call, decide
from bullpen.asks.subject import Subject, Touch, look
from bullpen.schema.asks import Rule

HERE = Path(__file__).parent / "corpus"
CALL = Call(1, "m", "ask", hook_approved=True, effects=True, author="ana")
GENEROUS = [
    Rule(id="1", effect="allow", tool="write"),
    Rule(id="2", effect="allow", path="/**"),
    *(
        Rule(id=name, effect="allow", tool="bash", command=f"{name} *")
        for name in ("cp", "echo", "git", "bullpen")
    ),
]


def corpus(name: str) -> list[str]:
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("# ")]


PATHS = corpus("protected_paths.txt")
COMMANDS = corpus("protected_commands.txt")
ORDINARY = corpus("ordinary_commands.txt")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / "src").mkdir()
    return tmp_path


def shell(root: Path, command: str) -> Subject:
    return look(Touch(tool="bash", action="execute", root=root, directory=root, command=command))


def outcome(subject: Subject, *standing: str, skip: bool = False) -> str:
    """What becomes of a call when everything generic allows it: rules, the session, the tool as a whole, and a hook."""
    allowed = ("bash", "write", "bash:execute", "write:write")
    return decide(
        subject,
        CALL,
        session_id="s",
        rules=GENEROUS,
        standing=("session", *standing),
        skip=skip,
        allowed=allowed,
    ).outcome


@pytest.mark.parametrize("path", PATHS)
def test_a_write_to_a_protected_path_is_asked_about(root: Path, path: str) -> None:
    real = Path(os.path.realpath(root / os.path.expanduser(path)))
    subject = look(Touch(tool="write", action="write", root=root, directory=root, paths=(real,)))
    assert (outcome(subject), outcome(subject, "exact"), outcome(subject, skip=True)) == (
        "asked",
        "allowed",
        "allowed",
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_names_one_is_asked_about(root: Path, command: str) -> None:
    subject = shell(root, command)
    assert (outcome(subject), outcome(subject, "exact"), outcome(subject, skip=True)) == (
        "asked",
        "allowed",
        "allowed",
    )


@pytest.mark.parametrize("command", ORDINARY)
def test_ordinary_work_is_not(root: Path, command: str) -> None:
    assert shell(root, command).protects == ""


def test_a_link_does_not_hide_the_target(root: Path) -> None:
    (root / "innocent").symlink_to(root / ".git" / "hooks")
    assert "hooks" in shell(root, "echo x > innocent/pre-commit").protects
    assert "hooks" in shell(root, "cp a innocent/pre-commit").protects


def test_what_the_server_keeps_is_protected(root: Path, tmp_path: Path) -> None:
    data = tmp_path / "elsewhere"
    touch = Touch(
        tool="write", action="write", root=root / "src", directory=root / "src", paths=(data / "x.db",)
    )
    assert look(touch, (data,)).protects
    assert not look(touch).protects


def test_a_project_may_lie_in_a_folder_with_such_a_name(tmp_path: Path) -> None:
    """Only where in the project a file is counts."""
    root = tmp_path / ".claude" / "project"
    root.mkdir(parents=True)
    touch = Touch(tool="write", action="write", root=root, directory=root, paths=(root / "src" / "a.py",))
    assert (look(touch).protects, shell(root, "touch a.py").protects) == ("", "")


def test_the_corpus_is_large_enough(figure: Figure) -> None:
    paths, commands = len(set(PATHS)), len(set(COMMANDS))
    assert (paths >= 55, commands >= 110) == (True, True)
    figure("X-15", "ATTK", f"{paths} protected paths and {commands} commands: 0 written to in silence")
