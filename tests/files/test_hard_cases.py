"""Undo where something is in the way: full disks, large trees, several sessions, things that are no files."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.campaign import sized
from tests.files.yard import SESSION, Yard, open_yard, unchanged

from bullpen.errors import NothingToUndo, UndoConflict
from bullpen.files.blobs import BlobMissing, Blobs
from bullpen.files.ground import Ground, drop_unused
from bullpen.files.showing import SHOWN_FILES
from bullpen.files.walk import Limits
from bullpen.store.changes import NewSet

ROOM = 1 << 20
NOBODY = 65_534
MANY = sized(SHOWN_FILES + 10, 2_000)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, 1 MiB large."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a file system needs root")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill_up(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(1024)):
            pass


async def test_an_undo_on_a_full_disk_changes_nothing_and_works_later(
    small_disk: Path, tmp_path: Path
) -> None:
    (tmp_path / "yard").mkdir()
    (tmp_path / "yard/project").symlink_to(small_disk)
    async with open_yard(tmp_path / "yard") as yard:
        yard.put("a", "1\n")
        yard.put("z", "1" * 20_000)
        await yard.command(1, lambda: yard.puts(a="2\n", z="2\n"))
        fill_up(small_disk / "ballast")
        with unchanged(small_disk), pytest.raises(UndoConflict, match="No space left"):
            await yard.undo(1)
        (small_disk / "ballast").unlink()
        await yard.undo(1)
        assert (yard.read("a"), yard.read("z")) == (b"1\n", b"1" * 20_000)


def test_without_room_to_keep_it_a_change_is_still_known(small_disk: Path, tmp_path: Path) -> None:
    """The file is told as one that cannot be undone, and not as gone."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "a").write_text("1\n")
    ground = Ground(root, small_disk / "kept", own=small_disk)
    with contextlib.closing(ground.blobs):
        ground.look(Limits())
        ground.fill(ground.unread(Limits()), Limits())
        fill_up(small_disk / "ballast")
        (root / "a").write_text("2" * 5_000)
        ((path, before, after),) = ground.look(Limits()).changes
        assert (path, before.is_kept, after.kind, after.is_kept) == ("a", True, "file", False)
        (small_disk / "ballast").unlink()
        (root / "a").write_text("3\n")
        ((_, _, after),) = ground.look(Limits()).changes
        assert after.is_kept


def test_what_changes_before_it_was_read_is_known_and_not_taken_for_the_earlier_content(
    tmp_path: Path,
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    for name in "abc":
        (root / name).write_text(f"{name}\n")
    ground = Ground(root, tmp_path / "kept", own=tmp_path / "kept")
    with contextlib.closing(ground.blobs):
        ground.look(Limits())
        (root / "b").write_text("changed before it was read\n")
        ground.fill(ground.unread(Limits()), Limits())
        assert ground.unread(Limits()) == ["b"]
        (root / "a").write_text("changed after it was read\n")
        found = {change.path: change.before.is_kept for change in ground.look(Limits()).changes}
        assert found == {"a": True, "b": False}


@pytest.fixture
def powerless() -> Iterator[Path]:
    """A directory for somebody who may not read everything, and to be that one."""
    is_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory(prefix="bp") as directory:
        if is_root:
            os.chown(directory, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        yield Path(directory).resolve()
        if is_root:
            os.seteuid(0)


def test_what_could_not_be_looked_at_before_was_not_made_by_the_turn(powerless: Path) -> None:
    """Otherwise an undo would delete it."""
    root = powerless / "project"
    (root / "closed").mkdir(parents=True)
    (root / "closed/precious").write_text("1")
    (root / "closed").chmod(0)
    ground = Ground(root, powerless / "kept", own=powerless / "kept")
    with contextlib.closing(ground.blobs):
        ground.look(Limits())
        (root / "closed").chmod(0o700)
        (root / "new").write_text("1")
        assert [change.path for change in ground.look(Limits()).changes] == ["closed", "new"]


def test_without_a_place_to_keep_contents_files_are_still_seen(powerless: Path) -> None:
    """They must not look new as soon as there is one."""
    root, kept = powerless / "project", powerless / "kept"
    root.mkdir()
    (root / "a").write_text("1")
    kept.mkdir(mode=0)
    ground = Ground(root, kept / "w", own=kept)
    with contextlib.closing(ground.blobs):
        ground.look(Limits())
        kept.chmod(0o700)
        (root / "b").write_text("1")
        assert [change.path for change in ground.look(Limits()).changes] == ["b"]


def test_what_is_kept_of_workspaces_that_nobody_opens_goes(tmp_path: Path) -> None:
    for name, age_s in (("here", 100), ("used", 50), ("unused", 100)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest").write_bytes(b"x")
        os.utime(tmp_path / name / "manifest", (0, time.time() - age_s))
    drop_unused(tmp_path, but="here", unused_s=75)
    assert sorted(os.listdir(tmp_path)) == ["here", "used"]


async def test_an_undo_under_way_is_carried_through_when_the_workspace_closes(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        yard.puts(a="1\n", b="1\n")
        await yard.command(1, lambda: yard.puts(a="2\n", b="2\n"))
        async with anyio.create_task_group() as people:
            people.start_soon(yard.undo, 1)
            await anyio.lowlevel.checkpoint()
            people.cancel_scope.cancel()
    assert ((tmp_path / "project/a").read_text(), (tmp_path / "project/b").read_text()) == ("1\n", "1\n")


async def test_a_turn_of_which_nothing_is_kept_says_why_it_cannot_be_undone(tmp_path: Path) -> None:
    async with open_yard(tmp_path, limits=Limits(file_bytes=10)) as yard:
        yard.put("large", "x" * 11)
        await yard.command(1, lambda: yard.put("large", "y" * 12))
        with pytest.raises(NothingToUndo, match="large, its content is not kept"):
            await yard.undo(1)


async def test_an_undo_beside_another_sessions_command_is_not_taken_for_its_work(yard: Yard) -> None:
    yard.put("a", "1\n")
    await yard.command(1, lambda: yard.put("a", "2\n"))
    call = await yard.tracking.before(NewSet("other", 7, "call", "c"), None)
    assert call is not None
    yard.put("b", "by the command\n")
    await yard.undo(1)
    await yard.tracking.after(call)
    (theirs,) = await yard.undoing.turns("other", before=0, limit=5)
    assert (theirs.paths, yard.read("a")) == (("b",), b"1\n")


def test_an_edit_during_a_look_is_not_told_by_the_look(tmp_path: Path) -> None:
    """It is on record as the edit of another call, which must not be undone with this one."""
    root = tmp_path / "project"
    root.mkdir()
    for name in "abc":
        (root / name).write_text("1\n")
    ground = Ground(root, tmp_path / "kept", own=tmp_path / "kept")

    def meanwhile() -> list[str]:
        """The last thing that a look asks for: one edit is over by then, one is not."""
        ground.note(["a"], Limits())
        return ["b"]

    with contextlib.closing(ground.blobs):
        ground.look(Limits())
        for name in "abc":
            (root / name).write_text("changed\n")
        assert [change.path for change in ground.look(Limits(), leave=meanwhile).changes] == ["c"]
        ground.note(["b"], Limits())
        assert ground.look(Limits()).changes == []


def test_a_file_in_the_place_of_an_ignored_directory_is_seen(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "build").mkdir(parents=True)
    (root / ".gitignore").write_text("build/\n")
    ground = Ground(root, tmp_path / "kept", own=tmp_path / "kept")
    with contextlib.closing(ground.blobs):
        ground.look(Limits())
        (root / "build").rmdir()
        (root / "build").write_text("a script\n")
        ground.look(Limits())
        (root / "build").write_text("another script\n")
        assert [change.path for change in ground.look(Limits()).changes] == ["build"]


async def test_two_sessions_that_edit_the_same_file_are_undone_apart(yard: Yard) -> None:
    lines = [f"{n}\n" for n in range(30)]
    yard.put("a", "".join(lines))
    await yard.edit(1, "a", "".join(["one\n", *lines]))
    await yard.edit(2, "a", "".join(["one\n", *lines, "two\n"]), session="other")
    await yard.undo(1)
    assert yard.read("a") == "".join([*lines, "two\n"]).encode()


async def test_undos_of_many_sessions_at_once_each_happen(yard: Yard) -> None:
    for turn in range(1, 9):
        await yard.edit(turn, f"f{turn}", "made\n")
    async with anyio.create_task_group() as people:
        for turn in range(1, 9):
            people.start_soon(yard.undo, turn)
    assert yard.tree() == {}


async def test_pipes_and_sockets_are_passed_over(yard: Yard) -> None:
    os.mkfifo(yard.root / "pipe")
    yard.put("a", "1\n")

    def work() -> None:
        os.mkfifo(yard.root / "another")
        (yard.root / "a").unlink()
        os.mkfifo(yard.root / "a")

    await yard.command(1, work)
    assert await yard.found(1) == {"a": "deleted"}
    with unchanged_names(yard.root), pytest.raises(UndoConflict):
        await yard.undo(1)


@contextlib.contextmanager
def unchanged_names(root: Path) -> Iterator[None]:
    before = sorted(os.listdir(root))
    yield
    assert sorted(os.listdir(root)) == before


async def test_installed_packages_are_neither_entered_nor_kept(yard: Yard) -> None:
    """However many there are, a look meets one name."""
    for n in range(300):
        yard.put(f"node_modules/p{n}/index.js", "x")
    yard.put("src/a.js", "1")
    await yard.command(1, lambda: yard.put("node_modules/p0/index.js", "y"))
    assert await yard.found(1) == {}
    ground = yard.tracking.ground
    assert set((ground._manifest or pytest.fail("never looked")).entries) == {"src", "src/a.js"}
    assert ground.blobs.total < 200


async def test_a_command_that_changes_many_files_is_undone_whole_and_shown_in_part(yard: Yard) -> None:
    for n in range(MANY):
        yard.put(f"d{n % 10}/f{n}", f"{n}\n")
    before = yard.tree()

    def work() -> None:
        for n in range(MANY):
            (yard.root / f"d{n % 10}/f{n}").write_text(f"changed {n}\n")

    await yard.command(1, work)
    preview = await yard.undoing.preview(SESSION, 1)
    assert (len(preview.files), preview.files[0].cut, preview.files[-1].cut) == (MANY, False, True)
    await yard.undo(1)
    assert yard.tree() == before


async def test_contents_dropped_while_a_call_is_under_way_are_not_the_calls_own(tmp_path: Path) -> None:
    async with open_yard(tmp_path, limits=Limits(store_bytes=60_000)) as yard:
        yard.put("named", "precious\n")
        edit = await yard.tracking.before(NewSet(SESSION, 99, "call", "c"), (yard.root / "named",))
        assert edit is not None
        yard.put("named", "changed\n")
        for turn in range(1, 20):
            await yard.command(turn, lambda: yard.put("a", os.urandom(6_000)))
        await yard.tracking.after(edit)
        assert (await yard.undoing.turns(SESSION, before=0, limit=50))[-1].state == "forgotten"
        await yard.undo(99)
        assert yard.read("named") == b"precious\n"


def test_contents_survive_a_reopening_and_a_torn_end(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "contents")
    names = [blobs.put(content, room=ROOM) or "" for content in (b"", b"one", b"two" * 1_000)]
    blobs.close()
    assert blobs.put(b"late", room=ROOM) is None
    with (tmp_path / "contents").open("r+b") as file:
        file.truncate(file.seek(0, os.SEEK_END) - 1)
    again = Blobs(tmp_path / "contents")
    assert [again.get(name) for name in names[:2]] == [b"", b"one"]
    with pytest.raises(BlobMissing):
        again.get(names[2])
    assert again.put(b"two" * 1_000, room=ROOM) == names[2]
    assert again.get(names[2]) == b"two" * 1_000
    again.mark()
    again.sweep({names[1]})
    assert (again.get(names[1]), names[2] in again, again.total) == (b"one", False, 39)
    again.close()


def test_a_content_that_was_spoilt_is_missing_rather_than_wrong(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "contents")
    name = blobs.put(b"precious", room=ROOM) or ""
    with (tmp_path / "contents").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")
    with pytest.raises(BlobMissing):
        blobs.get(name)
    blobs.close()
