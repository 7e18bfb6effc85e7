"""Files are read and replaced so that what was checked is what is touched."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from bullpen.system import files
from bullpen.system.files import FileChanged, NotRegular, read_file, replace_file


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def test_a_file_is_replaced_whole_and_keeps_its_mode(place: Path) -> None:
    """No temporary file stays behind."""
    file = place / "tool.sh"
    file.write_text("old")
    file.chmod(0o751)
    _, stamp = read_file(file, limit_bytes=100)
    replace_file(file, b"new", expected=stamp)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode), os.listdir(place)) == (
        "new",
        0o751,
        ["tool.sh"],
    )


def test_a_new_file_gets_its_directories_and_the_usual_mode(place: Path) -> None:
    """Readable for all, as far as the umask allows."""
    old = os.umask(0o027)
    try:
        replace_file(place / "a/b/new.txt", b"text", expected=None)
    finally:
        os.umask(old)
    assert stat.S_IMODE((place / "a/b/new.txt").stat().st_mode) == 0o640


@pytest.mark.parametrize("change", ["content", "gone", "replaced"])
def test_a_file_changed_meanwhile_is_left_alone(place: Path, change: str) -> None:
    """Somebody else's work is not overwritten."""
    file = place / "shared.txt"
    file.write_text("mine")
    _, stamp = read_file(file, limit_bytes=100)
    file.unlink()
    if change != "gone":
        file.write_text("theirs" if change == "content" else "mine")
    with pytest.raises(FileChanged):
        replace_file(file, b"new", expected=stamp)
    assert os.listdir(place) == ([] if change == "gone" else ["shared.txt"])


def test_a_file_made_meanwhile_is_left_alone(place: Path) -> None:
    """Of many who create one file, one wins; the others are told."""
    results: list[str] = []

    def create(number: int) -> None:
        try:
            replace_file(place / "one.txt", str(number).encode(), expected=None)
            results.append("won")
        except FileChanged:
            results.append("told")

    threads = [threading.Thread(target=create, args=[n]) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sorted(results), os.listdir(place)) == (["told"] * 15 + ["won"], ["one.txt"])


def test_a_path_that_became_a_link_is_refused(place: Path) -> None:
    """The path was resolved before; a link in it now is a trick, at the end or on the way."""
    secret = place / "secret"
    secret.mkdir()
    (secret / "key").write_text("k")
    (place / "link").symlink_to(secret)
    (place / "file").symlink_to(secret / "key")
    for path in (place / "link/key", place / "file"):
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            read_file(path, limit_bytes=100)
    with pytest.raises(OSError, match="Not a directory"):
        replace_file(place / "link/new", b"x", expected=None)
    with pytest.raises(NotRegular):
        replace_file(place / "file", b"x", expected=None)
    assert os.listdir(secret) == ["key"]


def test_only_regular_files_are_read(place: Path) -> None:
    """A pipe that nobody writes to must not hold us."""
    os.mkfifo(place / "pipe")
    for path in (place / "pipe", place, Path("/dev/null"), Path("/")):
        with pytest.raises(NotRegular):
            read_file(path, limit_bytes=100)


def test_a_large_file_is_refused(place: Path) -> None:
    """Before it is read."""
    (place / "large").write_bytes(b"x" * 101)
    with pytest.raises(OSError, match="too large"):
        read_file(place / "large", limit_bytes=100)


def test_a_failed_write_leaves_no_trace(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file is there, and nothing beside it."""
    (place / "f").write_text("old")
    _, stamp = read_file(place / "f", limit_bytes=100)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(place / "f", b"new", expected=stamp)
    assert ((place / "f").read_text(), os.listdir(place)) == ("old", ["f"])


def test_a_file_system_that_cannot_exchange_gets_a_last_look(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is replaced all the same, and a change that can be seen is respected."""

    def cannot(one: str, other: str, parent: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(files, "_exchange", cannot)
    file = place / "f"
    file.write_text("old")
    content, stamp = read_file(file, limit_bytes=100)
    replace_file(file, b"new", expected=stamp, before=content)
    assert (file.read_text(), os.listdir(place)) == ("new", ["f"])
    content, stamp = read_file(file, limit_bytes=100)
    with pytest.raises(FileChanged):
        replace_file(file, b"more", expected=stamp, before=b"odd")
    assert (file.read_text(), os.listdir(place)) == ("new", ["f"])
