from __future__ import annotations

import os
from pathlib import Path

from tests.config.conftest import World

from bullpen.config import context
from bullpen.config.context import personal_context, project_context
from bullpen.config.shape import Options


def found(world: World, context_paths: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    files = project_context(world.root, Options(context_paths=context_paths), home=world.home, env=world.env)
    return [(os.path.relpath(path, world.root), text) for path, text in files]


def put(root: Path, **files: str) -> None:
    for name, text in files.items():
        file = root / name.replace("__", "/").replace("_md", ".md")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_well_known_names_come_in_a_stable_order(world: World) -> None:
    put(world.root, CLAUDE_md="c", AGENTS_md="a", BULLPEN_md="b", OTHER_md="o")
    rules = world.root / ".cursor/rules"
    rules.mkdir(parents=True)
    (rules / "b.mdc").write_text("2")
    (rules / "a.mdc").write_text("1")
    names = ["AGENTS.md", "BULLPEN.md", "CLAUDE.md", ".cursor/rules/a.mdc", ".cursor/rules/b.mdc"]
    assert [name for name, _ in found(world)] == names


def test_a_file_is_read_once_whatever_its_case(world: World) -> None:
    put(world.root, AGENTS_md="a", agents_md="b")
    assert found(world, context_paths=("AGENTS.md",)) == [("AGENTS.md", "a")]


def test_configured_paths(world: World) -> None:
    """Relative to the workspace, below the home directory, from a variable, and whole folders."""
    put(world.root, docs__style_md="s", docs__deep__more_md="m")
    put(world.home, mine_md="h")
    world.env["NOTES"] = str(world.home)
    paths = ("docs", "~/mine.md", "$NOTES/mine.md", "gone.md")
    assert [text for _, text in found(world, context_paths=paths)] == ["s", "m", "h"]


def test_a_link_out_of_the_workspace_is_not_followed(world: World) -> None:
    """A cloned repository must not read somebody's keys."""
    put(world.home, id_rsa="secret")
    (world.root / "AGENTS.md").symlink_to(world.home / "id_rsa")
    (world.root / ".cursor").mkdir()
    (world.root / ".cursor/rules").symlink_to(world.home)
    (world.root / "real.md").write_text("fine")
    (world.root / "CLAUDE.md").symlink_to("real.md")
    assert found(world) == [("CLAUDE.md", "fine")]


def test_sizes_are_bounded(world: World) -> None:
    put(world.root, AGENTS_md="é" * 100_000)
    for n in range(9):
        put(world.root, **{f"more__{n}": "x" * 60_000})
    texts = [text for _, text in found(world, context_paths=("more",))]
    assert texts[0].endswith("[cut here: the file is longer]")
    assert len(texts[0].encode()) < context.FILE_LIMIT_BYTES + 100
    assert sum(len(text.encode()) for text in texts) < context.TOTAL_LIMIT_BYTES + 100


def test_what_is_no_text_is_left_out(world: World) -> None:
    (world.root / "AGENTS.md").write_bytes(b"a\0b")
    os.mkfifo(world.root / "CLAUDE.md")
    (world.root / "GEMINI.md").write_bytes(b"ok \xff")
    put(world.root, CRUSH_md="")
    assert found(world) == [("GEMINI.md", "ok \ufffd")]


def test_the_users_own_files(world: World) -> None:
    """Two standard ones, or those that are named."""
    put(world.places.config, BULLPEN_md="b")
    put(world.places.config.parent, AGENTS_md="a")
    put(world.home, own_md="o")

    def personal(options: Options) -> list[str]:
        return [text for _, text in personal_context(options, world.places, root=world.root, env=world.env)]

    assert personal(Options()) == ["b", "a"]
    assert personal(Options(global_context_paths=("~/own.md",))) == ["o"]
