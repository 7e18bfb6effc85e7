"""Creating and replacing files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tools.conftest import Asked, Bench, Change

from bullpen.tools.base import Outcome, PermissionDenied


async def read_then_write(bench: Bench, name: str, content: str) -> Outcome:
    await bench.call("view", file_path=name)
    return await bench.call("write", file_path=name, content=content)


def meddle(file: Path) -> Callable[[Asked], None]:
    """Somebody writes the file while the person is asked."""

    def write(asked: Asked) -> None:
        file.write_text("theirs")

    return write


async def test_a_new_file_is_shown_before_it_is_made(bench: Bench) -> None:
    """Neither it nor its directory is there when the person is asked."""
    target = bench.root / "deep/new.txt"

    def look(asked: Asked) -> None:
        assert not target.parent.exists()

    bench.on_permit = look
    outcome = await bench.call("write", file_path=str(target), content="one\ntwo\n")
    (asked,) = bench.asked
    assert (asked.action, asked.path) == ("write", bench.root)
    assert asked.params == {"file_path": str(target), "new_content": "one\ntwo\n"}
    assert target.read_text() == "one\ntwo\n"
    assert bench.files.changes == [Change(target, "", "one\ntwo\n")]
    assert outcome.metadata
    assert (outcome.metadata["additions"], outcome.metadata["removals"]) == (2, 0)
    assert "+one\n+two\n" in outcome.metadata["diff"]


async def test_a_file_that_was_read_is_replaced(bench: Bench) -> None:
    """The person sees both contents; the write counts as a read."""
    file = bench.root / "a.txt"
    file.write_text("one\ntwo\n")
    outcome = await read_then_write(bench, "a.txt", "one\n2\n")
    assert (outcome.is_error, file.read_text()) == (False, "one\n2\n")
    assert bench.asked[0].params == {
        "file_path": str(file),
        "old_content": "one\ntwo\n",
        "new_content": "one\n2\n",
    }
    again = await bench.call("write", file_path="a.txt", content="3\n")
    assert (again.is_error, file.read_text()) == (False, "3\n")


async def test_an_unread_file_is_not_replaced(bench: Bench) -> None:
    """The model would not know what it destroys."""
    (bench.root / "a.txt").write_text("precious")
    outcome = await bench.call("write", file_path="a.txt", content="x")
    assert (outcome.is_error, "has not been read" in outcome.content) == (True, True)
    assert (bench.asked, (bench.root / "a.txt").read_text()) == ([], "precious")


async def test_a_file_changed_since_the_read_is_not_replaced(bench: Bench) -> None:
    """A fraction of a second is enough to be noticed."""
    file = bench.root / "a.txt"
    file.write_text("old")
    await bench.call("view", file_path="a.txt")
    file.write_text("theirs")
    later = time.time_ns() + 1_000_000
    os.utime(file, ns=(later, later))
    outcome = await bench.call("write", file_path="a.txt", content="mine")
    assert (outcome.is_error, file.read_text()) == (True, "theirs")
    assert "changed by somebody else" in outcome.content


async def test_a_file_changed_while_a_person_thinks_is_not_replaced(bench: Bench) -> None:
    """The last look comes after the permission; nothing is recorded."""
    file = bench.root / "a.txt"
    file.write_text("old")
    bench.on_permit = meddle(file)
    outcome = await read_then_write(bench, "a.txt", "mine")
    assert (outcome.is_error, file.read_text(), bench.files.changes) == (True, "theirs", [])


async def test_a_file_made_while_a_person_thinks_is_not_replaced(bench: Bench) -> None:
    """They agreed to a new file, not to losing another."""
    file = bench.root / "a.txt"
    bench.on_permit = meddle(file)
    outcome = await bench.call("write", file_path="a.txt", content="mine")
    assert (outcome.is_error, file.read_text()) == (True, "theirs")


async def test_the_same_content_is_no_change(bench: Bench) -> None:
    """The model is told, and nobody is asked."""
    (bench.root / "a.txt").write_text("same\n")
    outcome = await read_then_write(bench, "a.txt", "same\n")
    assert (outcome.is_error, bench.asked) == (True, [])


async def test_a_refusal_shows_what_would_have_been_written(bench: Bench) -> None:
    """And ends the turn."""

    def refuse(asked: Asked) -> None:
        raise PermissionDenied

    bench.on_permit = refuse
    outcome = await bench.call("write", file_path="d/a.txt", content="x\n")
    assert (outcome.content, outcome.is_error, outcome.stop_turn) == ("User denied permission", True, True)
    assert outcome.metadata
    assert "+x" in outcome.metadata["diff"]
    assert os.listdir(bench.root) == []


@pytest.mark.parametrize(
    ("before", "given", "after"),
    [
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nc\r\n", b"a\r\nc\r\n"),
        (b"a\r\nb\n", "c\n", b"c\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
    ],
    ids=["line ends", "line ends given", "mixed line ends", "byte order mark"],
)
async def test_the_style_of_a_file_is_kept(bench: Bench, before: bytes, given: str, after: bytes) -> None:
    """What is shown to the person is exactly what is written."""
    (bench.root / "a.txt").write_bytes(before)
    await read_then_write(bench, "a.txt", given)
    assert (bench.root / "a.txt").read_bytes() == after == bench.asked[0].params["new_content"].encode()


async def test_a_link_keeps_pointing(bench: Bench) -> None:
    """The file behind it is replaced; one outside is asked for by its own directory."""
    outside = bench.root.parent / "outside"
    (outside / "real.txt").write_text("old")
    (bench.root / "link.txt").symlink_to(outside / "real.txt")
    await bench.call("view", file_path="link.txt")
    await bench.call("write", file_path="link.txt", content="new")
    assert (bench.root / "link.txt").is_symlink()
    assert (outside / "real.txt").read_text() == "new"
    assert bench.asked[-1].path == outside


async def test_what_cannot_be_written_is_told(bench: Bench, root: Path) -> None:
    """A directory, a path through a file, a file that is no text."""
    (root / "dir").mkdir()
    (root / "file").write_text("x")
    (root / "binary").write_bytes(b"\xff\xfe")
    names = ("dir", "file/below", "binary")
    outcomes = [await bench.call("write", file_path=name, content="y") for name in names]
    assert [outcome.is_error for outcome in outcomes] == [True] * 3
    assert bench.asked == []
