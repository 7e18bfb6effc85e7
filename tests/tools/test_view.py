"""Reading files by sections."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.tools.conftest import Asked, Bench

from bullpen.files.sections import MAX_LINE_BYTES
from bullpen.tools.base import PermissionDenied
from bullpen.tools.view import DAMAGED, MAX_IMAGE_BYTES, MAX_SECTION_BYTES

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


async def test_lines_have_numbers(bench: Bench) -> None:
    """The read is remembered, so that the file may be changed afterwards."""
    file = bench.root / "a.txt"
    file.write_text("one\n\nthree\n")
    outcome = await bench.call("view", file_path="a.txt")
    assert outcome.content == "<file>\n     1|one\n     2|\n     3|three\n</file>"
    assert outcome.metadata == {"file_path": str(file), "content": "one\n\nthree"}
    assert file in bench.files.reads


async def test_a_section_is_read(bench: Bench) -> None:
    """Offset skips lines; a note tells where to go on, and nothing is said at the end."""
    (bench.root / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 11)))
    part = await bench.call("view", file_path="a.txt", offset=3, limit=2)
    assert part.content == "<file>\n     4|4\n     5|5\n\n(There is more; go on with offset 5.)\n</file>"
    rest = await bench.call("view", file_path="a.txt", offset=8, limit=2)
    assert rest.content == "<file>\n     9|9\n    10|10\n</file>"
    beyond = await bench.call("view", file_path="a.txt", offset=50)
    assert "no line after 50" in beyond.content


async def test_a_long_line_is_cut(bench: Bench) -> None:
    """Between characters; the next line is still the next line."""
    (bench.root / "a.txt").write_text("x" + "é" * 100_000 + "\nnext\r\n" + "y" * MAX_LINE_BYTES)
    outcome = await bench.call("view", file_path="a.txt")
    first, second, third = outcome.content.split("\n")[1:-1]
    assert first.startswith("     1|xéé")
    assert first.endswith("é…")
    assert len(first.encode()) < MAX_LINE_BYTES + 20
    assert (second, third) == ("     2|next", "     3|" + "y" * MAX_LINE_BYTES)


async def test_a_large_section_stops_early(bench: Bench) -> None:
    """The note gives the offset to go on from, so no step is lost on an error."""
    (bench.root / "a.txt").write_text(("x" * 1000 + "\n") * 1000)
    outcome = await bench.call("view", file_path="a.txt")
    assert len(outcome.content) < MAX_SECTION_BYTES * 1.1
    assert "go on with offset 204" in outcome.content


async def test_what_is_no_text_is_refused(bench: Bench) -> None:
    """NULs, directories and pipes."""
    (bench.root / "nul").write_bytes(b"a\0b\n")
    (bench.root / "dir").mkdir()
    os.mkfifo(bench.root / "pipe")
    outcomes = [await bench.call("view", file_path=name) for name in ("nul", "dir", "pipe")]
    assert [outcome.is_error for outcome in outcomes] == [True] * 3
    words = ("binary", "is a directory; use ls", "not a regular file")
    assert all(word in outcome.content for word, outcome in zip(words, outcomes, strict=True))
    assert bench.files.reads == {}


async def test_bytes_that_are_no_utf8_are_shown_as_such(bench: Bench) -> None:
    """A note says so; the rest of the file is still worth reading."""
    (bench.root / "latin").write_bytes(b"caf\xe9\nplain\n")
    outcome = await bench.call("view", file_path="latin")
    assert outcome.content == f"<file>\n     1|caf\ufffd\n     2|plain\n\n({DAMAGED})\n</file>"
    clean = await bench.call("view", file_path="latin", offset=1)
    assert DAMAGED not in clean.content


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
async def test_a_byte_order_mark_tells_the_encoding(bench: Bench, encoding: str) -> None:
    """And is not part of the first line."""
    (bench.root / "a").write_bytes("grün\r\nblau\n".encode(encoding))
    assert (await bench.call("view", file_path="a")).content == "<file>\n     1|grün\n     2|blau\n</file>"


async def test_a_missing_file_has_neighbours(bench: Bench) -> None:
    """Up to three names that are like the one asked for."""
    for name in ("config.py", "config_test.py", "my_config.py", "aconfig.py", "other.py"):
        (bench.root / name).touch()
    outcome = await bench.call("view", file_path="Config")
    assert outcome.is_error
    found = [line.rsplit("/", 1)[-1] for line in outcome.content.splitlines()[3:]]
    assert found == ["aconfig.py", "config.py", "config_test.py"]


async def test_a_file_outside_is_asked_for(bench: Bench) -> None:
    """By its real place, also when a link in the workspace leads there."""
    secret = bench.root.parent / "outside" / "secret.txt"
    secret.write_text("s\n")
    (bench.root / "innocent.txt").symlink_to(secret)
    outcome = await bench.call("view", file_path="innocent.txt")
    (asked,) = bench.asked
    assert (asked.action, asked.path) == ("read", secret.parent)
    assert asked.params == {"file_path": str(bench.root / "innocent.txt"), "offset": 0, "limit": 0}
    assert str(secret) in asked.description
    assert outcome.is_error is False


async def test_a_path_swapped_while_a_person_thinks_is_refused(bench: Bench) -> None:
    """What was shown is what is read, or nothing is."""
    folder = bench.root.parent / "outside" / "folder"
    folder.mkdir()
    (folder / "x").write_text("harmless")
    (bench.root / "x").write_text("other")

    def swap(asked: Asked) -> None:
        folder.rename(folder.with_name("moved"))
        folder.symlink_to(bench.root)

    bench.on_permit = swap
    outcome = await bench.call("view", file_path=str(folder / "x"))
    assert (outcome.is_error, "other" in outcome.content) == (True, False)


async def test_a_refused_read_reads_nothing(bench: Bench) -> None:
    """The refusal is the result."""

    def refuse(asked: Asked) -> None:
        raise PermissionDenied

    bench.on_permit = refuse
    assert (await bench.call("view", file_path="/etc/hostname")).content == "User denied permission"
    assert bench.files.reads == {}


async def test_an_image_is_shown(bench: Bench) -> None:
    """With the type that its content has; a model without eyes is told."""
    (bench.root / "a.jpg").write_bytes(PNG)
    (bench.root / "fake.png").write_text("no image")
    outcome = await bench.call("view", file_path="a.jpg")
    assert (outcome.data, outcome.mime_type, outcome.is_error) == (PNG, "image/png", False)
    assert (await bench.call("view", file_path="fake.png")).is_error
    (bench.root / "huge.png").write_bytes(PNG + bytes(MAX_IMAGE_BYTES))
    assert "make a smaller one" in (await bench.call("view", file_path="huge.png")).content
    bench.supports_images = False
    assert "cannot see images" in (await bench.call("view", file_path="a.jpg")).content


async def test_a_skill_is_read_whole_and_without_asking(bench: Bench) -> None:
    """Its name and description are shown with it."""
    folder = bench.root.parent / "outside" / "gamma"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: gamma\ndescription: Third.\n---\n" + "line\n" * 3000)
    bench.skill_dirs = [folder]
    outcome = await bench.call("view", file_path=str(folder / "SKILL.md"))
    assert "  3004|line" in outcome.content
    assert outcome.metadata
    facts = {key: value for key, value in outcome.metadata.items() if key.startswith("resource_")}
    assert facts == {"resource_type": "skill", "resource_name": "gamma", "resource_description": "Third."}
    assert bench.asked == []


async def test_an_empty_file_is_said_to_be_empty(bench: Bench, root: Path) -> None:
    """Rather than shown as nothing."""
    (root / "empty").touch()
    assert (await bench.call("view", file_path="empty")).content == "<file>\n(The file is empty.)\n</file>"
