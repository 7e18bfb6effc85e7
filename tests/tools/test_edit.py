"""Changing pieces of files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.tools.conftest import Asked, Bench, Change

from bullpen.tools.base import Outcome, PermissionDenied


async def edit(bench: Bench, name: str, old: str, new: str, **more: Any) -> Outcome:
    """As a model does: read first."""
    await bench.call("view", file_path=name)
    return await bench.call("edit", file_path=name, old_string=old, new_string=new, **more)


def refuse(asked: Asked) -> None:
    raise PermissionDenied


async def test_a_piece_is_replaced(bench: Bench) -> None:
    """The person sees both contents; display gets them and the counts."""
    file = bench.root / "a.py"
    file.write_text("one\ntwo\nthree\n")
    outcome = await edit(bench, "a.py", "two", "2\n2½")
    after = "one\n2\n2½\nthree\n"
    assert (outcome.is_error, file.read_text()) == (False, after)
    (asked,) = bench.asked
    assert (asked.action, asked.path, asked.reach.paths) == ("write", bench.root, (file,))
    shown = {"old_content": "one\ntwo\nthree\n", "new_content": after}
    assert asked.params == {"file_path": str(file), **shown}
    assert outcome.metadata == {"additions": 2, "removals": 1, **shown}
    assert bench.files.changes == [Change(file, "one\ntwo\nthree\n", after)]


async def test_a_change_counts_as_a_read(bench: Bench) -> None:
    """The next edit needs no view."""
    (bench.root / "a").write_text("1\n2\n")
    await edit(bench, "a", "1", "one")
    again = await bench.call("edit", file_path="a", old_string="2", new_string="two")
    assert (again.is_error, (bench.root / "a").read_text()) == (False, "one\ntwo\n")


@pytest.mark.parametrize("name", ["edit", "multiedit"])
async def test_a_new_file_is_made_after_the_person_agreed(bench: Bench, name: str) -> None:
    """Its directories too. One that is there is not replaced."""
    target = bench.root / "deep/er/new.txt"

    def look(asked: Asked) -> None:
        assert not (bench.root / "deep").exists()

    def arguments(content: str) -> dict[str, Any]:
        change = {"old_string": "", "new_string": content}
        return change if name == "edit" else {"edits": [change, {"old_string": "b", "new_string": "c"}]}

    bench.on_permit = look
    first = await bench.call(name, file_path=str(target), **arguments("a b\n"))
    assert (first.is_error, target.read_text()) == (False, "a b\n" if name == "edit" else "a c\n")
    assert first.metadata
    assert (first.metadata["additions"], first.metadata["removals"]) == (1, 0)
    again = await bench.call(name, file_path=str(target), **arguments("z"))
    assert (again.is_error, "exists already" in again.content) == (True, True)


@pytest.mark.parametrize("name", ["edit", "multiedit"])
async def test_a_refusal_shows_what_was_refused(bench: Bench, name: str) -> None:
    """The file stays, nothing is made, the turn ends."""
    bench.on_permit = refuse
    change = {"old_string": "", "new_string": "x\n"}
    arguments = change if name == "edit" else {"edits": [change]}
    outcome = await bench.call(name, file_path="d/a.txt", **arguments)
    assert (outcome.content, outcome.is_error, outcome.stop_turn) == ("User denied permission", True, True)
    assert outcome.metadata
    assert outcome.metadata["new_content"] == "x\n"
    assert os.listdir(bench.root) == []


async def test_what_cannot_be_changed_is_told_with_the_next_step(bench: Bench, root: Path) -> None:
    """And nobody is asked."""
    (root / "dir").mkdir()
    (root / "unread").write_text("x")
    (root / "same").write_text("x\n")
    (root / "binary").write_bytes(b"a\0b")
    os.mkfifo(root / "pipe")
    told = {
        "dir": "is a directory",
        "unread": "view it first",
        "missing": "there is no file",
        "binary": "through bash",
        "pipe": "not a regular file",
    }
    for name, words in told.items():
        outcome = await bench.call("edit", file_path=name, old_string="x", new_string="y")
        assert (outcome.is_error, words in outcome.content) == (True, True), outcome.content
    assert "are the same" in (await edit(bench, "same", "x", "x")).content
    assert "not in the file" in (await edit(bench, "same", "q", "y")).content
    assert bench.asked == []


async def test_a_file_changed_while_a_person_thinks_is_left_alone(bench: Bench) -> None:
    """The model is told to look again; nothing is recorded."""
    file = bench.root / "a"
    file.write_text("old\n")

    def meddle(asked: Asked) -> None:
        file.write_text("theirs")

    bench.on_permit = meddle
    outcome = await edit(bench, "a", "old", "mine")
    assert (outcome.is_error, file.read_text(), bench.files.changes) == (True, "theirs", [])


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "1\n2\n3", b"1\r\n2\r\n3\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", "b\n", "B\n", b"a\r\nB\nc\r\n"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        ("grün\n".encode("utf-16"), "grün", "blau", "blau\n".encode("utf-16")),
        (b"\xef\xbb\xbf a\r\n\tb", "b", "c\nd", b"\xef\xbb\xbf a\r\n\tc\r\nd"),
    ],
    ids=["line ends", "both line ends", "byte order mark", "utf-16", "all of it"],
)
async def test_the_style_of_a_file_is_kept(
    bench: Bench, before: bytes, old: str, new: str, after: bytes
) -> None:
    """And so is its mode."""
    file = bench.root / "a"
    file.write_bytes(before)
    file.chmod(0o750)
    await bench.files.mark_read(file)
    outcome = await bench.call("edit", file_path="a", old_string=old, new_string=new)
    assert (outcome.content.startswith("Changed"), file.read_bytes()) == (True, after)
    assert file.stat().st_mode & 0o777 == 0o750


async def test_an_older_encoding_is_kept(bench: Bench) -> None:
    """What it has no letters for is refused, and so is a text that was UTF-8 once."""
    words = "Die Größe des Gebäudes überrascht; natürlich fällt das während der Führung häufig auf.\n" * 4
    file = bench.root / "a"
    file.write_bytes(words.encode("latin-1"))
    outcome = await edit(bench, "a", "Die Gr", "Eine Gr", replace_all=True)
    assert outcome.is_error is False
    assert file.read_bytes() == words.replace("Die", "Eine").encode("latin-1")
    refused = await bench.call("edit", file_path="a", old_string="Eine", new_string="日本", replace_all=True)
    assert (refused.is_error, "turn the file into UTF-8" in refused.content) == (True, True)
    (bench.root / "b").write_bytes("größer, schöner\n".encode() + b"\xff\n")
    damaged = await edit(bench, "b", "gr", "kl")
    assert "not UTF-8 text (line 2)" in damaged.content


async def test_a_link_keeps_pointing_and_a_second_name_keeps_its_content(bench: Bench) -> None:
    """What lies outside is asked for by its own place; a file that only shares its content with one outside is not it."""
    outside = bench.root.parent / "outside"
    (outside / "real").write_text("old")
    (outside / "shared").write_text("old")
    (bench.root / "link").symlink_to(outside / "real")
    os.link(outside / "shared", bench.root / "hard")
    await edit(bench, "link", "old", "new")
    assert (bench.asked[-1].path, bench.asked[-1].reach.paths) == (outside, (outside / "real",))
    assert ((bench.root / "link").is_symlink(), (outside / "real").read_text()) == (True, "new")
    await edit(bench, "hard", "old", "new")
    assert ((bench.root / "hard").read_text(), (outside / "shared").read_text()) == ("new", "old")


async def test_a_file_read_by_another_name_was_read(bench: Bench) -> None:
    """Through a link to it."""
    (bench.root / "real").write_text("old")
    (bench.root / "link").symlink_to("real")
    await bench.call("view", file_path="real")
    outcome = await bench.call("edit", file_path="link", old_string="old", new_string="new")
    assert (outcome.is_error, (bench.root / "real").read_text()) == (False, "new")


async def test_several_edits_are_made_in_order(bench: Bench) -> None:
    """Each sees what those before it made; those that fail are left out and named, to the model too."""
    file = bench.root / "a"
    file.write_text("one\ntwo\nthree\n")
    await bench.call("view", file_path="a")
    edits = [
        {"old_string": "one", "new_string": "two"},
        {"old_string": "two", "new_string": "2", "replace_all": True},
        {"old_string": "four", "new_string": "4"},
        {"old_string": "", "new_string": "late"},
        {"old_string": "three", "new_string": "3"},
    ]
    outcome = await bench.call("multiedit", file_path="a", edits=edits)
    assert (outcome.is_error, file.read_text()) == (False, "2\n2\n3\n")
    assert "Made 3 of 5 edits" in outcome.content
    assert "Edit 3 was not made: old_string is not in the file" in outcome.content
    assert outcome.metadata
    failed = outcome.metadata["edits_failed"]
    assert (outcome.metadata["edits_applied"], [each["index"] for each in failed]) == (3, [3, 4])
    assert failed[0]["edit"] == {"old_string": "four", "new_string": "4", "replace_all": False}
    assert failed[0]["error"] in outcome.content
    assert len(bench.asked) == 1


async def test_edits_of_which_none_can_be_made_change_nothing(bench: Bench) -> None:
    """Nor do those that undo each other."""
    (bench.root / "a").write_text("one\n")
    await bench.call("view", file_path="a")
    nothing = [{"old_string": "x", "new_string": "y"}]
    there_and_back = [{"old_string": "one", "new_string": "1"}, {"old_string": "1", "new_string": "one"}]
    outcomes = [
        await bench.call("multiedit", file_path="a", edits=edits) for edits in (nothing, there_and_back, [])
    ]
    assert [outcome.is_error for outcome in outcomes] == [True] * 3
    assert "Edit 1 was not made" in outcomes[0].content
    assert bench.asked == []
