"""What is found of a turn's changes, and whose they are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.files.yard import SESSION, Yard, open_yard, tree_of

from bullpen.errors import ChangesNotFound
from bullpen.files.walk import Limits
from bullpen.store.changes import NewSet


async def test_a_command_is_known_by_what_it_created_changed_and_deleted(yard: Yard) -> None:
    for name in ("kept", "changed", "gone"):
        yard.put(name, f"{name}\n")

    def work() -> None:
        yard.put("changed", "otherwise\n")
        (yard.root / "gone").unlink()
        yard.put("new/file", "made\n")

    await yard.command(1, work)
    assert await yard.found(1) == {
        "changed": "modified",
        "gone": "deleted",
        "new": "created",
        "new/file": "created",
    }


async def test_what_people_did_before_a_command_is_not_the_commands(yard: Yard) -> None:
    yard.put("a", "1\n")
    await yard.command(1, lambda: None)
    yard.put("a", "a person's\n")
    yard.put("b", "a person's\n")
    await yard.command(2, lambda: yard.put("c", "the turn's\n"))
    assert await yard.found(2) == {"c": "created"}


async def test_a_change_within_one_tick_and_of_the_same_size_is_found(yard: Yard) -> None:
    yard.put("a", "one\n")
    await yard.command(1, lambda: None)
    before = (yard.root / "a").stat()

    def sly() -> None:
        (yard.root / "a").write_text("two\n")
        os.utime(yard.root / "a", ns=(before.st_atime_ns, before.st_mtime_ns))

    await yard.command(2, sly)
    assert await yard.found(2) == {"a": "modified"}


async def test_a_file_that_is_no_longer_ignored_was_not_made_by_the_turn(yard: Yard) -> None:
    """Otherwise an undo would delete it."""
    yard.put(".gitignore", "secret\n")
    yard.put("secret", "precious\n")
    await yard.command(1, lambda: yard.put(".gitignore", "\n"))
    assert await yard.found(1) == {".gitignore": "modified"}
    await yard.undo(1)
    assert yard.read("secret") == b"precious\n"


async def test_a_file_that_is_ignored_from_now_on_was_not_deleted(yard: Yard) -> None:
    yard.put("secret", "precious\n")
    await yard.command(1, lambda: yard.put(".gitignore", "secret\n"))
    assert await yard.found(1) == {".gitignore": "created"}


async def test_ignored_files_and_version_control_are_left_out_of_commands(yard: Yard) -> None:
    yard.put(".gitignore", "out/\n")

    def work() -> None:
        for path in (".git/index", "out/a", "node_modules/x/y", "src/.git/config"):
            yard.put(path, "x")

    await yard.command(1, work)
    assert await yard.found(1) == {"src": "created"}


async def test_an_ignored_file_that_a_tool_names_is_known(yard: Yard) -> None:
    yard.put(".gitignore", "*.env\n")
    yard.put("a.env", "before\n")
    await yard.edit(1, "a.env", "after\n")
    await yard.command(2, lambda: yard.put("a.env", "later\n"))
    await yard.undo(2)
    assert yard.read("a.env") == b"after\n"
    await yard.undo(1)
    assert yard.read("a.env") == b"before\n"


async def test_version_control_is_never_kept(yard: Yard) -> None:
    await yard.edit(1, ".git/hooks/pre-commit", "x")
    assert await yard.found(1) == {}


async def test_a_file_outside_that_a_tool_names_is_known_by_its_whole_path(yard: Yard) -> None:
    elsewhere = yard.root.parent / "elsewhere"
    (elsewhere / "old").mkdir(parents=True)
    (elsewhere / "old/a").write_text("before\n")
    await yard.edit(1, str(elsewhere / "old/a"), "after\n")
    await yard.edit(1, str(elsewhere / "new/b"), "made\n")
    await yard.command(1, lambda: None)
    assert await yard.found(1) == {
        str(elsewhere / "new"): "created",
        str(elsewhere / "new/b"): "created",
        str(elsewhere / "old/a"): "modified",
    }
    await yard.undo(1)
    assert {path: content for path, (_, content) in tree_of(elsewhere).items()} == {
        "old": b"",
        "old/a": b"before\n",
    }


async def test_an_edit_beside_another_sessions_command_belongs_to_who_made_it(yard: Yard) -> None:
    yard.put("a", "1\n")
    call = await yard.tracking.before(NewSet("other", 7, "call", "c"), None)
    assert call is not None
    await yard.edit(1, "a", "2\n")
    yard.put("b", "by the command\n")
    await yard.tracking.after(call)
    assert await yard.found(1) == {"a": "modified"}
    (theirs,) = await yard.undoing.turns("other", before=0, limit=5)
    assert (theirs.created, theirs.modified, theirs.shared) == (1, 0, False)


async def test_commands_side_by_side_are_told_apart_as_far_as_can_be_and_said_to_overlap(yard: Yard) -> None:
    first = await yard.tracking.before(NewSet("other", 7, "call", "c"), None)
    assert first is not None
    yard.put("a", "by the first\n")
    await yard.command(1, lambda: yard.put("b", "by the second\n"))
    await yard.tracking.after(first)
    (mine,) = await yard.undoing.turns(SESSION, before=0, limit=5)
    (theirs,) = await yard.undoing.turns("other", before=0, limit=5)
    assert (mine.created, mine.shared, theirs.created, theirs.shared) == (1, True, 1, True)


async def test_what_is_too_large_is_known_to_have_changed_and_left_alone(tmp_path: Path) -> None:
    async with open_yard(tmp_path, limits=Limits(file_bytes=100)) as yard:
        yard.put("large", "x" * 101)
        yard.put("small", "x")

        def work() -> None:
            yard.put("large", "y" * 102)
            yard.put("small", "y")

        await yard.command(1, work)
        preview = await yard.undoing.preview(SESSION, 1)
        assert [(f.path, f.status) for f in preview.files] == [("large", "uncovered"), ("small", "ready")]
        done = await yard.undo(1)
        assert done.restored == ("small",)
        assert done.notes[0].startswith("1 file cannot be undone: large")
        assert yard.read("large") == b"y" * 102


async def test_more_files_than_are_watched_are_said_to_be_there(tmp_path: Path) -> None:
    async with open_yard(tmp_path, limits=Limits(files=3)) as yard:
        for name in "abcde":
            yard.put(name, name)
        await yard.command(1, lambda: yard.put("a", "changed"))
        (turn,) = await yard.undoing.turns(SESSION, before=0, limit=5)
        assert turn.partial
        await yard.undo(1)
        assert [yard.read(name) for name in "abcde"] == [b"a", b"b", b"c", b"d", b"e"]


async def test_the_oldest_is_dropped_when_there_is_no_more_room(tmp_path: Path) -> None:
    async with open_yard(tmp_path, limits=Limits(store_bytes=40_000)) as yard:
        for turn in range(1, 30):
            await yard.command(turn, lambda: yard.put("a", os.urandom(4_000)))
        turns = await yard.undoing.turns(SESSION, before=0, limit=100)
        assert [turns[0].turn, turns[0].state] == [29, "changed"]
        assert [turns[-1].turn, turns[-1].state] == [1, "forgotten"]
        with pytest.raises(ChangesNotFound, match=r"turn 1 changed is no longer kept.*max_store"):
            await yard.undo(1)
        assert yard.tracking.ground.blobs.total <= 40_000
        last = yard.read("a")
        await yard.undo(29)
        assert yard.read("a") != last


async def test_contents_are_for_this_user_alone_and_outside_of_the_project(yard: Yard) -> None:
    yard.put("a", "1\n")
    await yard.command(1, lambda: yard.put("a", "2\n"))
    kept = yard.store.directory / "undo"
    files = [place for place in kept.rglob("*") if place.is_file()]
    assert files
    assert {place.stat().st_mode & 0o777 for place in files} == {0o600}
    assert not kept.is_relative_to(yard.root)


async def test_names_that_are_not_text_are_passed_over(yard: Yard) -> None:
    odd = os.fsencode(yard.root) + b"/\xff\xfe"

    def work() -> None:
        Path(os.fsdecode(odd)).write_bytes(b"x")
        yard.put("a", "1\n")

    await yard.command(1, work)
    assert await yard.found(1) == {"a": "created"}


async def test_what_is_known_survives_a_restart_and_is_not_read_again(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        yard.put("a", "1\n")
        await yard.command(1, lambda: None)
    shutil.rmtree(tmp_path / "project" / "nothing", ignore_errors=True)
    async with open_yard(tmp_path) as yard:
        await yard.command(2, lambda: yard.put("a", "2\n"))
        assert await yard.found(2) == {"a": "modified"}


async def test_a_call_that_a_crash_cut_off_is_told_as_unknown(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        yard.put("a", "1\n")
        call = await yard.tracking.before(NewSet(SESSION, 4, "call", "c"), None)
        assert call is not None
        yard.put("a", "half\n")
    async with open_yard(tmp_path) as yard:
        (turn,) = await yard.undoing.turns(SESSION, before=0, limit=5)
        assert (turn.turn, turn.modified, turn.unknown) == (4, 1, True)
        await yard.undo(4)
        assert yard.read("a") == b"1\n"


async def test_switched_off_nothing_is_kept(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        yard.tracking._limits = lambda: None
        yard.put("a", "1\n")
        assert await yard.tracking.before(NewSet(SESSION, 1, "call", "c"), None) is None
        assert not (yard.store.directory / "undo").exists()
