"""What a path means, and whether it lies in the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.errors import ToolFailed
from bullpen.system import paths


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "shed").mkdir()
    (tmp_path / "shed-other").mkdir()
    (tmp_path / "shed/out").symlink_to(tmp_path)
    return tmp_path / "shed"


def test_relative_paths_are_the_workspaces(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never the server's own directory; `~` is the home."""
    monkeypatch.setenv("HOME", "/home/ada")
    found = [paths.resolve(root, text) for text in ("a/b", "./a//b/", "/etc/x", "~/x", ".")]
    assert found == [root / "a/b", root / "a/b", Path("/etc/x"), Path("/home/ada/x"), root]


def test_a_step_up_from_a_link_leads_where_the_link_leads(root: Path) -> None:
    """The name alone would say otherwise."""
    assert paths.resolve(root, "out/../x") == root.parent.parent.resolve() / "x"


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (".", True),
        ("a", True),
        ("a/../b", True),
        ("..", False),
        ("out", False),
        ("out/x", False),
        ("out/shed/x", True),
        ("../shed-other/x", False),
        ("/etc/passwd", False),
    ],
)
def test_links_are_followed_to_tell_inside_from_outside(root: Path, text: str, inside: bool) -> None:
    """A neighbour whose name only begins like ours is outside."""
    assert paths.is_inside(root, root / text) is inside


def test_what_no_file_can_be_called_is_told(root: Path) -> None:
    with pytest.raises(ToolFailed, match="NUL"):
        paths.resolve(root, "a\0b")


def test_a_resolved_path_is_not_looked_up_again(root: Path) -> None:
    """It may lead elsewhere by then; whoever opens it goes step by step and follows nothing."""
    real = paths.real(root)
    (root / "in").symlink_to(root.parent)
    assert paths.is_below(real, real / "in")
    assert not paths.is_below(real, real.with_name("shed-other"))
