"""Directories as trees."""

from __future__ import annotations

from pathlib import Path

from tests.tools.conftest import Bench


def fill(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


async def test_a_tree_is_drawn_in_order(bench: Bench) -> None:
    """Directories end with a slash, two blanks per level."""
    fill(bench.root, "b.txt", "a/z.py", "a/b/c.py", "C.md")
    outcome = await bench.call("ls")
    lines = [f"- {bench.root}/", "  - C.md", "  - a/", "    - b/", "      - c.py", "    - z.py", "  - b.txt"]
    assert outcome.content == "\n".join(lines)
    assert outcome.metadata == {"number_of_files": 6, "truncated": False}


async def test_what_is_ignored_is_left_out(bench: Bench) -> None:
    """By ignore files at every level, by the usual clutter, by the call; also in a directory further down."""
    fill(bench.root, "x.log", "sub/y.log", "sub/keep.log", "node_modules/m.js", "sub/t.tmp", "sub/.hidden")
    (bench.root / ".gitignore").write_text("*.log\n.gitignore\n")
    (bench.root / "sub/.crushignore").write_text("!keep.log\n.crushignore\n")
    outcome = await bench.call("ls", path="sub", ignore=["*.tmp"])
    assert outcome.content == f"- {bench.root}/sub/\n  - .hidden\n  - keep.log"


async def test_limits_are_told(bench: Bench) -> None:
    """Both notes when both hold; the config's limit counts too."""
    fill(bench.root, "a/b/c/d", "e", "f")
    bench.limits = {"ls": {"max_items": 3, "max_depth": 2}}
    outcome = await bench.call("ls", depth=9)
    assert "Only the first 3 entries" in outcome.content
    assert "Only 2 levels" in outcome.content
    assert outcome.content.endswith("  - a/\n    - b/\n  - e")
    assert outcome.metadata == {"number_of_files": 3, "truncated": True}


async def test_links_are_shown_and_not_followed(bench: Bench) -> None:
    """Neither in circles nor out of the workspace."""
    fill(bench.root.parent / "outside", "secret")
    (bench.root / "out").symlink_to(bench.root.parent / "outside")
    (bench.root / "self").symlink_to(bench.root)
    assert (await bench.call("ls")).content == f"- {bench.root}/\n  - out\n  - self"


async def test_a_directory_outside_is_asked_for(bench: Bench) -> None:
    """By its real place."""
    outside = bench.root.parent / "outside"
    (bench.root / "out").symlink_to(outside)
    outcome = await bench.call("ls", path="out", depth=1)
    (asked,) = bench.asked
    assert (asked.action, asked.path) == ("list", outside)
    assert asked.params == {"path": str(bench.root / "out"), "ignore": [], "depth": 1}
    assert outcome.content.endswith("(empty)")


async def test_what_is_no_directory_is_told(bench: Bench) -> None:
    """A file, or nothing."""
    fill(bench.root, "a.txt")
    assert [(await bench.call("ls", path=path)).is_error for path in ("a.txt", "none")] == [True, True]
