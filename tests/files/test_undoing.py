"""Undo and redo: exact where nobody else was, careful where somebody was."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import anyio
import pytest
from tests.files.yard import SESSION, WORKSPACE, Yard, open_yard, tree_of, unchanged

from bullpen.errors import (
    BadRequest,
    ChangesNotFound,
    NothingToUndo,
    PreviewOutdated,
    SessionBusy,
    UndoConflict,
)
from bullpen.schema.changes import UndoRequest
from bullpen.store import prompts
from bullpen.store.tx import Tx

LINES = [f"line {n}\n" for n in range(40)]


async def test_a_turns_changes_go_and_come_back(yard: Yard) -> None:
    yard.put("changed", "before\n")
    yard.put("gone", "precious\n")
    yard.put("dir/kept", "x")
    (yard.root / "link").symlink_to("changed")
    (yard.root / "changed").chmod(0o755)
    before = yard.tree()

    def work() -> None:
        yard.put("changed", "after\n")
        (yard.root / "changed").chmod(0o600)
        (yard.root / "gone").unlink()
        yard.put("new/deep/file", "made\n")
        (yard.root / "new/empty").mkdir()
        (yard.root / "link").unlink()
        (yard.root / "link").symlink_to("elsewhere")
        (yard.root / "dir/kept").chmod(0o700)

    await yard.command(1, work)
    after = yard.tree()
    await yard.undo(1)
    assert yard.tree() == before
    await yard.redo()
    assert yard.tree() == after


@pytest.mark.parametrize(
    "content",
    [b"a\r\nb\r\n", b"\xef\xbb\xbfbom\n", b"\x00\x01binary\xff", b"", b"no end", b"lone\rreturn\n"],
    ids=["crlf", "bom", "binary", "empty", "no end", "lone return"],
)
async def test_bytes_come_back_as_they_were(yard: Yard, content: bytes) -> None:
    yard.put("a", content)
    await yard.edit(1, "a", b"something else")
    await yard.undo(1)
    assert yard.read("a") == content
    await yard.redo()
    assert yard.read("a") == b"something else"


async def test_things_that_became_others_become_themselves_again(yard: Yard) -> None:
    yard.put("file", "was a file\n")
    yard.put("dir/inside", "x\n")
    (yard.root / "link").symlink_to("file")
    before = yard.tree()

    def work() -> None:
        (yard.root / "file").unlink()
        yard.put("file/now a directory", "y\n")
        (yard.root / "dir/inside").unlink()
        (yard.root / "dir").rmdir()
        (yard.root / "dir").symlink_to("link")
        (yard.root / "link").unlink()
        yard.put("link", "now a file\n")

    await yard.command(1, work)
    after = yard.tree()
    await yard.undo(1)
    assert yard.tree() == before
    await yard.redo()
    assert yard.tree() == after


async def test_a_later_edit_elsewhere_in_the_file_stays(yard: Yard) -> None:
    yard.put("a", "".join(LINES))
    await yard.edit(1, "a", "".join([*LINES[:5], "the turn's\n", *LINES[5:]]))
    yard.put("a", "".join([*LINES[:5], "the turn's\n", *LINES[5:30], "a person's\n", *LINES[30:]]))
    preview = await yard.undoing.preview(SESSION, 1)
    assert [(f.path, f.status, f.removals) for f in preview.files] == [("a", "merge", 1)]
    await yard.undo(1)
    assert yard.read("a") == "".join([*LINES[:30], "a person's\n", *LINES[30:]]).encode()


async def test_a_later_edit_in_the_same_place_is_a_conflict_and_nothing_is_done(yard: Yard) -> None:
    yard.put("a", "1\n")
    yard.put("b", "1\n")
    await yard.command(1, lambda: yard.puts(a="2\n", b="2\n"))
    yard.put("a", "a person's\n")
    with unchanged(yard.root), pytest.raises(UndoConflict, match=r"a \(it was changed since"):
        await yard.undo(1)
    await yard.undo(1, files=("b",))
    assert (yard.read("a"), yard.read("b")) == (b"a person's\n", b"1\n")


async def test_a_new_file_that_somebody_went_on_with_is_not_deleted(yard: Yard) -> None:
    await yard.edit(1, "a", "the turn's\n")
    yard.put("a", "the turn's\nand mine\n")
    with unchanged(yard.root), pytest.raises(UndoConflict):
        await yard.undo(1)


async def test_a_directory_with_somebodys_file_in_it_stays(yard: Yard) -> None:
    await yard.command(1, lambda: yard.put("new/a", "the turn's\n"))
    yard.put("new/mine", "a person's\n")
    await yard.undo(1)
    assert set(yard.tree()) == {"new", "new/mine"}


async def test_only_some_hunks_which_can_come_back_too(yard: Yard) -> None:
    yard.put("a", "".join(LINES))
    yard.put("b", "1\n")

    def work() -> None:
        yard.put("a", "".join(["first\n", *LINES[:30], "second\n", *LINES[30:]]))
        yard.put("b", "2\n")

    await yard.command(1, work)
    preview = await yard.undoing.preview(SESSION, 1)
    first, second = (hunk.id for hunk in preview.files[0].hunks)
    await yard.undo(1, hunks=(second,))
    assert (yard.read("a"), yard.read("b")) == ("".join(["first\n", *LINES]).encode(), b"2\n")
    (turn,) = await yard.undoing.turns(SESSION, before=0, limit=5)
    assert turn.state == "partly"
    with pytest.raises(BadRequest, match="no such hunk"):
        await yard.undo(1, hunks=(second,))
    await yard.undo(1)
    assert (yard.read("a"), yard.read("b")) == ("".join(LINES).encode(), b"1\n")
    redo = await yard.undoing.preview_redo(SESSION)
    assert [file.path for file in redo.files] == ["a", "b"]
    await yard.redo(files=("b",))
    assert (yard.read("a"), yard.read("b")) == ("".join(LINES).encode(), b"2\n")
    await yard.redo()
    await yard.redo()
    assert yard.read("a") == "".join(["first\n", *LINES[:30], "second\n", *LINES[30:]]).encode()
    assert [hunk.id for hunk in (await yard.undoing.preview(SESSION, 1)).files[0].hunks] == [first, second]


async def test_a_preview_that_is_out_of_date_binds_nobody(yard: Yard) -> None:
    yard.put("a", "1\n")
    await yard.edit(1, "a", "2\n")
    preview = await yard.undoing.preview(SESSION, 1)
    yard.put("a", "1\n")
    with unchanged(yard.root), pytest.raises(PreviewOutdated):
        await yard.undo(1, fingerprint=preview.fingerprint)


async def test_turns_are_undone_one_after_the_other(yard: Yard) -> None:
    yard.put("a", "0\n")
    for turn in (1, 2, 3):
        await yard.edit(turn, "a", f"{turn}\n")
    for turn in (3, 2, 1):
        await yard.undo(turn)
        assert yard.read("a") == f"{turn - 1}\n".encode()
    for turn in (1, 2, 3):
        await yard.redo()
        assert yard.read("a") == f"{turn}\n".encode()
    with pytest.raises(NothingToUndo, match="redo"):
        await yard.redo()


async def test_a_person_between_two_calls_of_a_turn_keeps_their_edit(yard: Yard) -> None:
    yard.put("a", "".join(LINES))
    await yard.edit(1, "a", "".join(["turn\n", *LINES]))
    yard.put("a", "".join(["turn\n", *LINES, "person\n"]))
    await yard.edit(1, "a", "".join(["turn\n", *LINES[:20], "turn again\n", *LINES[20:], "person\n"]))
    await yard.undo(1)
    assert yard.read("a") == "".join([*LINES, "person\n"]).encode()


async def test_two_people_at_once_undo_it_once(yard: Yard) -> None:
    yard.put("a", "1\n")
    await yard.edit(1, "a", "2\n")
    outcomes: list[object] = []

    async def one() -> None:
        try:
            outcomes.append((await yard.undo(1)).restored)
        except NothingToUndo as exc:
            outcomes.append(type(exc))

    async with anyio.create_task_group() as people:
        for _ in range(3):
            people.start_soon(one)
    assert sorted(map(str, outcomes)) == sorted(map(str, [("a",), NothingToUndo, NothingToUndo]))
    assert yard.read("a") == b"1\n"


async def test_while_a_turn_runs_or_waits_nothing_is_undone(yard: Yard) -> None:
    yard.put("a", "1\n")
    await yard.edit(1, "a", "2\n")
    row = prompts.NewRow(session=SESSION, text="go", run_id="r", own_run_id=False)
    await yard.store.write(lambda tx: prompts.accept(tx, WORKSPACE, row))
    with unchanged(yard.root), pytest.raises(SessionBusy):
        await yard.undo(1)


async def test_the_conversation_says_what_is_back(yard: Yard) -> None:
    yard.put("a", "1\n")
    await yard.edit(1, "a", "2\n")
    await yard.undo(1)
    await yard.redo()
    undone, redone = await yard.said()
    assert undone.startswith("[I undid what an earlier turn changed")
    assert redone.startswith("[I redid")
    assert "a." in undone


async def test_a_turn_that_changed_nothing_is_said_so(yard: Yard) -> None:
    with pytest.raises(ChangesNotFound):
        await yard.undo(1)
    with pytest.raises(NothingToUndo):
        await yard.redo()
    with pytest.raises(ChangesNotFound, match="nothing to redo"):
        await yard.undoing.preview_redo(SESSION)


async def test_a_file_that_cannot_be_written_stops_all_and_leaves_all(yard: Yard) -> None:
    yard.put("a", "1\n")
    yard.put("z", "1\n")
    await yard.command(1, lambda: yard.puts(a="2\n", z="2\n"))
    somebody_writes = open(yard.root / "z", "r+b")  # noqa: SIM115
    with somebody_writes, unchanged(yard.root), pytest.raises(UndoConflict, match="z: it was changed just"):
        await yard.undo(1)
    await yard.undo(1)
    assert (yard.read("a"), yard.read("z")) == (b"1\n", b"1\n")


async def test_a_directory_that_became_a_link_leads_nowhere(yard: Yard, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    yard.put("dir/a", "1\n")
    await yard.edit(1, "dir/a", "2\n")
    os.rename(yard.root / "dir", yard.root / "moved")
    (yard.root / "dir").symlink_to(outside)
    (outside / "a").write_text("2\n")
    with unchanged(tmp_path / "outside"), pytest.raises(UndoConflict):
        await yard.undo(1)


async def test_git_is_neither_needed_nor_touched(yard: Yard) -> None:
    def git(*arguments: str) -> str:
        env = {"PATH": os.environ["PATH"], "HOME": str(yard.root), "GIT_OPTIONAL_LOCKS": "0"}
        told = ("-c", "user.name=a", "-c", "user.email=a@b", *arguments)
        return subprocess.run(
            ["git", *told], cwd=yard.root, env=env, check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    yard.put("a", "1\n")
    yard.put("staged", "1\n")
    git("add", ".")
    git("commit", "-qm", "x")
    yard.put("staged", "2\n")
    git("add", "staged")
    status, kept = git("status", "--porcelain"), tree_of(yard.root / ".git")
    await yard.command(1, lambda: yard.puts(a="2\n", b="3\n"))
    await yard.undo(1)
    assert tree_of(yard.root / ".git") == kept
    assert git("status", "--porcelain") == status


async def test_an_undo_that_was_cut_off_is_finished_at_the_next_opening(tmp_path: Path) -> None:
    async with open_yard(tmp_path) as yard:
        for name in "abc":
            yard.put(name, "1\n")
        await yard.command(1, lambda: yard.puts(a="2\n", b="2\n", c="2\n"))
        await yard.undo(1)

        # As if the server had died after the first file, and somebody had changed the last one since.
        async def reopen(tx: Tx) -> None:
            await tx.run("UPDATE change_sets SET state = 'applying' WHERE kind = 'undo'")

        await yard.store.write(reopen)
        yard.put("b", "2\n")
        yard.put("c", "a person's\n")
    async with open_yard(tmp_path) as yard:
        assert [yard.read(name) for name in "abc"] == [b"1\n", b"1\n", b"a person's\n"]
        await yard.redo()
        assert [yard.read(name) for name in "abc"] == [b"2\n", b"2\n", b"a person's\n"]


async def test_the_preview_says_what_will_happen(yard: Yard) -> None:
    yard.put("a", "1\n2\n")
    await yard.command(1, lambda: yard.puts(**{"a": "1\ntwo\n", "new/b": "x\n"}))
    preview = await yard.undoing.preview(SESSION, 1)
    assert [(f.path, f.change, f.status) for f in preview.files] == [
        ("a", "modified", "ready"),
        ("new/", "deleted", "ready"),
        ("new/b", "deleted", "ready"),
    ]
    assert preview.files[0].hunks[0].text == "@@ -1,2 +1,2 @@\n 1\n-two\n+2\n"
    with pytest.raises(BadRequest, match="not among"):
        await yard.undoing.undo(SESSION, 1, UndoRequest(files=("c",)), "")
    await yard.undo(1, files=("new/b",))
    assert set(yard.tree()) == {"a"}
