"""What git knows of a directory, and that no repository has anything run by our asking (X-13)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Figure

from bullpen.system.git import Snapshot, look

ENV = {"PATH": os.environ["PATH"]}
PATIENCE_S = 60.0
"""A loaded machine may take its time; what is shown here does not depend on it."""

WHO = ("-c", "user.name=ana", "-c", "user.email=ana@example.org")


def git(root: Path, *arguments: str) -> None:
    own = {**ENV, "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *WHO, *arguments], cwd=root, env=own, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "kept.txt").write_text("one\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return root


def seen(root: Path) -> Snapshot | None:
    return look(root, ENV, limit_s=PATIENCE_S)


def test_branch_changes_and_commits(repository: Path) -> None:
    assert seen(repository) == Snapshot("main", (), (str(seen_commits(repository)[0]),))
    (repository / "kept.txt").write_text("two\n")
    (repository / "new.txt").write_text("new\n")
    found = seen(repository)
    assert found is not None
    assert found.changes == (" M kept.txt", "?? new.txt")
    assert [line.partition(" ")[2] for line in found.commits] == ["first"]


def seen_commits(root: Path) -> tuple[str, ...]:
    found = seen(root)
    assert found is not None
    return found.commits


def test_a_directory_below_the_top_is_told_of_itself(repository: Path) -> None:
    below = repository / "below"
    below.mkdir()
    (repository / "beside.txt").write_text("x")
    (below / "own.txt").write_text("x")
    found = seen(below)
    assert found is not None
    assert found.changes == ("?? below/",)


def test_before_the_first_commit_and_without_a_branch(repository: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q", "-b", "trunk")
    assert seen(empty) == Snapshot("trunk", (), ())
    git(repository, "checkout", "-q", "--detach")
    found = seen(repository)
    assert found is not None
    assert found.branch == ""


def test_nothing_is_known_outside_without_git_or_in_no_time(repository: Path, tmp_path: Path) -> None:
    assert seen(tmp_path) is None
    assert look(repository, {"PATH": str(tmp_path)}, limit_s=PATIENCE_S) is None
    assert look(repository, {"PATH": ".:relative"}, limit_s=PATIENCE_S) is None
    assert look(repository, ENV, limit_s=0) is None
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/.git").write_text("gitdir: /nowhere\n")
    assert seen(tmp_path / "broken") is None


def test_the_index_is_left_alone(repository: Path) -> None:
    index = repository / ".git/index"
    os.utime(repository / "kept.txt", (1, 1))
    before = index.read_bytes()
    assert seen(repository) is not None
    assert index.read_bytes() == before


# A repository that wants to run something


def settings(*lines: str) -> Callable[[Path, str], None]:
    """Append to the repository's own settings; `{trap}` is a program that leaves a trace."""

    def plant(root: Path, trap: str) -> None:
        with (root / ".git/config").open("a") as config:
            config.write("\n" + "\n".join(lines).replace("{trap}", trap) + "\n")

    return plant


def filtered(name: str, key: str) -> Callable[[Path, str], None]:
    def plant(root: Path, trap: str) -> None:
        settings(f'[filter "{name}"]', f"\t{key} = {trap}", "\trequired = true")(root, trap)
        (root / ".gitattributes").write_text(f"* filter={name}\n")

    return plant


def included(root: Path, trap: str) -> None:
    (root / "more.cfg").write_text(f'[filter "hidden"]\n\tclean = {trap}\n[core]\n\tfsmonitor = {trap}\n')
    settings("[include]", "\tpath = ../more.cfg")(root, trap)
    (root / ".gitattributes").write_text("* filter=hidden\n")


def hooks(root: Path, trap: str) -> None:
    for name in ("post-index-change", "fsmonitor-watchman", "pre-commit", "reference-transaction"):
        hook = root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{trap}\n")
        hook.chmod(0o755)
    settings("[core]", "\tfsmonitor = .git/hooks/fsmonitor-watchman")(root, trap)


def submodule(root: Path, trap: str) -> None:
    """A repository within it, with settings of its own that ours would not reach."""
    inner = root / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    git(inner, "commit", "-q", "--allow-empty", "-m", "x")
    (inner / "file").write_text("x")
    settings("[core]", "\tfsmonitor = {trap}")(inner, trap)
    (root / ".gitmodules").write_text('[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n')
    git(root, "add", ".")


def promised(root: Path, trap: str) -> None:
    """Objects that are missing and would be fetched with a program of the repository's choice."""
    settings(
        "[core]",
        "\trepositoryFormatVersion = 1",
        "\tsshCommand = {trap}",
        "\tgitProxy = {trap}",
        "[extensions]",
        "\tpartialClone = origin",
        '[remote "origin"]',
        "\turl = ext::{trap}",
        "\tpromisor = true",
        "\tuploadpack = {trap}",
        "[protocol]",
        "\tallow = always",
    )(root, trap)
    for object_file in (root / ".git/objects").glob("??/*"):
        object_file.unlink()


TRAPS: dict[str, Callable[[Path, str], None]] = {
    "fsmonitor": settings("[core]", "\tfsmonitor = {trap}"),
    "hooks": hooks,
    "hooksPath": settings("[core]", "\thooksPath = hooks-of-mine"),
    "clean filter": filtered("plain", "clean"),
    "filter with an equals sign": filtered("a=b", "clean"),
    "filter with a dot and a space": filtered("a.b", "clean"),
    "filter process": filtered("long", "process"),
    "smudge filter": filtered("back", "smudge"),
    "included filter": included,
    "textconv": settings('[diff "t"]', "\ttextconv = {trap}", "\tcommand = {trap}"),
    "external diff": settings("[diff]", "\texternal = {trap}"),
    "pager": settings("[core]", "\tpager = {trap}", "[pager]", "\tstatus = {trap}", "\tlog = {trap}"),
    "signatures": settings("[log]", "\tshowSignature = true", "[gpg]", "\tprogram = {trap}"),
    "ssh, helper, editor": settings(
        "[core]",
        "\tsshCommand = {trap}",
        "\teditor = {trap}",
        "\taskPass = {trap}",
        "[credential]",
        "\thelper = {trap}",
    ),
    "alias": settings("[alias]", "\tstatus = !{trap}", "\tlog = !{trap}", "\tconfig = !{trap}"),
    "submodule": submodule,
    "promised objects": promised,
}


@pytest.mark.parametrize("kind", TRAPS)
def test_nothing_of_the_repository_is_run(
    repository: Path, tmp_path: Path, kind: str, figure: Figure
) -> None:
    sprung = tmp_path / "sprung"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{sprung}'\ncat\n")
    trap.chmod(0o755)
    hostile = "$(touch${IFS}x);`touch${IFS}y`|<b>"
    git(repository, "checkout", "-q", "-b", hostile)
    git(repository, "-c", "gpg.program=false", "commit", "-q", "--allow-empty", "-m", "--output=x; touch y")
    TRAPS[kind](repository, str(trap))
    # Changed and of the same length, so that git has to look into the file.
    (repository / "kept.txt").write_text("two\n")
    os.utime(repository / "kept.txt", (1, 1))
    found = seen(repository)
    assert not sprung.exists(), sprung.read_text()
    assert not (repository / "x").exists()
    assert not (repository / "y").exists()
    if kind != "promised objects":
        assert found is not None
        assert found.branch == hostile
        assert any(line.endswith("kept.txt") for line in found.changes)
    figure("X-13", "ATTK", f"trap repository, {kind}: 0 executions")


@pytest.mark.parametrize("kind", ["fsmonitor", "clean filter", "alias"])
def test_the_traps_are_real(repository: Path, tmp_path: Path, kind: str) -> None:
    """An ordinary call of git springs them."""
    sprung = tmp_path / "sprung"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch '{sprung}'\ncat\n")
    trap.chmod(0o755)
    TRAPS[kind](repository, str(trap))
    (repository / "kept.txt").write_text("two\n")
    asked = ["git", "lg"] if kind == "alias" else ["git", "status"]
    if kind == "alias":
        settings("[alias]", "\tlg = !{trap}")(repository, str(trap))
    subprocess.run(asked, cwd=repository, env=ENV, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    assert sprung.exists()
