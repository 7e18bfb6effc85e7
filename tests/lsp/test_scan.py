"""What became of the files of a workspace since the last look."""

from __future__ import annotations

import os
from pathlib import Path

from bullpen.lsp.documents import CHANGED, CREATED, DELETED
from bullpen.lsp.scan import Scan


def scan(root: Path) -> Scan:
    found = Scan(root, lambda path: path.suffix == ".py")
    assert found.changes() == []
    return found


def test_files_that_are_made_changed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.py", "b.py", "sub/c.py", "d.txt"):
        (tmp_path / name).touch()
    look = scan(tmp_path)
    (tmp_path / "a.py").write_text("x")
    (tmp_path / "b.py").unlink()
    (tmp_path / "sub/new").mkdir()
    (tmp_path / "sub/new/e.py").touch()
    (tmp_path / "d.txt").write_text("x")
    assert look.changes() == [
        (tmp_path / "a.py", CHANGED),
        (tmp_path / "b.py", DELETED),
        (tmp_path / "sub/new/e.py", CREATED),
    ]
    assert look.changes() == []


def test_a_directory_that_has_not_changed_is_not_listed_again_and_its_files_are_looked_at(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.py").touch()
    long_ago = 1_000_000_000
    os.utime(tmp_path, (long_ago, long_ago))
    look = scan(tmp_path)
    (tmp_path / "a.py").write_text("x")
    assert look.changes() == [(tmp_path / "a.py", CHANGED)]
    (tmp_path / "b.py").touch()
    assert look.changes() == [(tmp_path / "b.py", CREATED)]


def test_what_is_ignored_and_links_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("out/\n*.gen.py\n")
    look = scan(tmp_path)
    for name in ("out/a.py", "node_modules/b.py", "c.gen.py", "d.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    (tmp_path / "up").symlink_to(tmp_path)
    assert look.changes() == [(tmp_path / "d.py", CREATED)]


def test_a_directory_that_goes_away_takes_its_files_with_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.py").touch()
    look = scan(tmp_path)
    (tmp_path / "sub/a.py").unlink()
    (tmp_path / "sub").rmdir()
    assert look.changes() == [(tmp_path / "sub/a.py", DELETED)]
