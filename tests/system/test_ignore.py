"""Ignore files at every level."""

from __future__ import annotations

from pathlib import Path

from bullpen.system.ignore import IgnoreRules


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
