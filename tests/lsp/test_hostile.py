"""Tools whose language server lies: nothing outside the workspace is shown or changed, and nothing hangs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.lsp.conftest import ENV, PATIENT, Desk, Script, opened
from tests.tools.conftest import Bench

from bullpen.system.jobs import Jobs


@pytest.fixture
async def desk(root: Path) -> AsyncIterator[Desk]:
    async with opened(root, dict(ENV), PATIENT) as room:
        bench = Bench(room.root, Jobs(ENV, room.processes), room.processes)
        bench.lsp = room.servers
        yield Desk(room, bench)


def area(start: int, end: int, line: int = 0) -> dict[str, Any]:
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def renaming(*targets: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"changes": {uri: [edit] for uri, edit in targets}}


async def test_a_rename_that_reaches_out_changes_nothing(desk: Desk, script: Script, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("name\n")
    (desk.root / "link.txt").symlink_to(outside)
    inside = desk.write("a.txt", "name\n")
    edit = {"range": area(0, 4), "newText": "fresh"}
    for target in (outside, desk.root / "../outside.txt", desk.root / "link.txt"):
        desk.room.follow(s=script(rename=renaming((inside.as_uri(), edit), (f"file://{target}", edit))))
        outcome = await desk.call("lsp_rename", symbol="name", new_name="fresh", path="a.txt")
        assert outcome.is_error, target
        assert "outside the workspace" in outcome.content
    assert (inside.read_text(), outside.read_text()) == ("name\n", "name\n")
    assert desk.bench.asked == []


@pytest.mark.parametrize(
    ("target", "edit", "why"),
    [
        ("new.txt", {"range": area(0, 0), "newText": "evil"}, "which is not there"),
        ("a.txt", {"range": area(0, 3), "newText": "fresh"}, "another state of the file"),
        ("pipe.txt", {"range": area(0, 0), "newText": "evil"}, "not a regular file"),
        ("binary.txt", {"range": area(0, 0), "newText": "evil"}, "binary file"),
        (".", {"range": area(0, 0), "newText": "evil"}, "is a directory"),
    ],
)
async def test_a_rename_of_what_is_no_such_text_is_refused(
    desk: Desk, script: Script, target: str, edit: dict[str, Any], why: str
) -> None:
    desk.write("a.txt", "name\n")
    desk.write("binary.txt", "a\0b")
    os.mkfifo(desk.root / "pipe.txt")
    desk.room.follow(s=script(rename=renaming(((desk.root / target).as_uri(), edit))))
    outcome = await desk.call("lsp_rename", symbol="name", new_name="fresh", path="a.txt")
    assert outcome.is_error
    assert why in outcome.content
    assert desk.bench.asked == []
    assert not (desk.root / "new.txt").exists()


async def test_lines_of_files_outside_are_not_shown(desk: Desk, script: Script, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("name = s3cr3t\n")
    (desk.root / "link.txt").symlink_to(secret)
    os.mkfifo(desk.root / "pipe.txt")
    desk.write("a.txt", "name\n")
    places = [secret, desk.root / "link.txt", desk.root / "../secret.txt", desk.root / "pipe.txt"]
    answer = [{"uri": f"file://{place}", "range": area(0, 4)} for place in places]
    desk.room.follow(s=script(definition=answer, references=answer))
    for tool in ("lsp_definition", "lsp_references"):
        outcome = await desk.call(tool, symbol="name", path="a.txt")
        assert not outcome.is_error, outcome.content
        assert "s3cr3t" not in outcome.content + str(outcome.metadata)
        assert outcome.content.count("(outside the workspace)") == 3


@pytest.mark.parametrize(
    "answer", [3, "x", [3], {"uri": 3}, [{"uri": "file:///x"}], {"uri": "file:\0", "range": {}}]
)
async def test_answers_that_make_no_sense_are_failures_with_a_next_step(
    desk: Desk, script: Script, answer: Any
) -> None:
    desk.write("a.txt", "name\n")
    desk.room.follow(s=script(definition=answer, symbols=answer))
    outcome = await desk.call("lsp_definition", symbol="name", path="a.txt")
    assert outcome.is_error
    assert "use grep" in outcome.content
    outcome = await desk.call("lsp_symbols", file_path="a.txt")
    assert outcome.content == "The file has no symbols."


async def test_a_pipe_with_the_name_of_a_source_holds_up_nobody(desk: Desk, script: Script) -> None:
    os.mkfifo(desk.root / "pipe.txt")
    desk.room.follow(s=script())
    outcome = await desk.call("lsp_symbols", file_path="pipe.txt")
    assert "is no text file" in outcome.content
    outcome = await desk.call("lsp_diagnostics", file_path="pipe.txt")
    assert "Current file: 0 errors" in outcome.content
