"""An edit is whole or absent, wherever SIGKILL hits, and never costs anybody else's edit."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.faults.kill.editor import version
from tests.faults.kill.seed import new_seed

from bullpen.system.files import FileChanged, read_file, replace_file

KILLS = sized(25, 2_000)
RACES = sized(200, 10_000)
POINTS = ("file-writing", "file-written", "file-swapping", "file-swapped", "")

COMMAND = [sys.executable, "-m", "tests.faults.kill.editor"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a mode, line ends and a byte order mark of its own."""
    path = tmp_path.resolve() / "shared.txt"
    path.write_bytes(version(0))
    path.chmod(0o751)
    return path


def edit(file: Path, failpoint: str, times: int) -> subprocess.Popen[str]:
    env = {"BULLPEN_FAILPOINTS": failpoint, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen([*COMMAND, str(file), str(times)], env=env, stdout=subprocess.PIPE, text=True)


def test_an_edit_is_whole_or_absent(file: Path, figure: Figure) -> None:
    """Killed at each step of it and at random moments: the old version or the new one, and none that was reported is lost."""
    seed = new_seed()
    rng = random.Random(seed)
    before = 0
    for n in range(KILLS):
        point = POINTS[n % len(POINTS)]
        process = edit(file, f"{point}=kill@{rng.randint(1, 3)}" if point else "", 1_000)
        assert process.stdout is not None
        lines: list[str] = []
        if not point:
            lines.append(process.stdout.readline())
            time.sleep(rng.uniform(0, 0.004))
            process.kill()
        lines += process.stdout.read().split()
        assert process.wait() == -signal.SIGKILL, f"BULLPEN_SEED={seed}"
        process.stdout.close()
        told = int(lines[-1]) if lines else before
        content = file.read_bytes()
        found = int(content.split()[1])
        assert content == version(found), f"torn; BULLPEN_SEED={seed}"
        assert found - told in (0, 1), f"told {told}, found {found}; BULLPEN_SEED={seed}"
        assert stat.S_IMODE(file.stat().st_mode) == 0o751
        before = found
    figure("R-27", "KILL", f"0 torn, 0 reported edits lost in {KILLS:,} kills inside {before:,} edits")


def rename(file: Path) -> None:
    other = file.with_name("theirs.tmp")
    other.write_bytes(b"theirs")
    other.rename(file)


def truncate(file: Path) -> None:
    file.write_bytes(b"theirs")


def append(file: Path) -> None:
    with file.open("ab") as stream:
        stream.write(b"theirs")


def overwrite_a_word(file: Path) -> None:
    """The same size, and the same time: only the content tells."""
    found = file.stat()
    with file.open("r+b") as stream:
        stream.seek(-8, os.SEEK_END)
        stream.write(b"theirs")
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


THEIRS: tuple[Callable[[Path], None], ...] = (rename, truncate, append, overwrite_a_word)


@pytest.mark.parametrize("theirs", THEIRS, ids=lambda theirs: theirs.__name__)
def test_a_foreign_edit_in_the_last_moment_is_kept(file: Path, theirs: Callable[[Path], None]) -> None:
    """The editor is held right before its version takes the file's place."""
    process = edit(file, "file-swapping=stop", 1)
    assert os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT) is not None
    theirs(file)
    wanted = file.read_bytes()
    process.send_signal(signal.SIGCONT)
    assert process.communicate()[0].split() == ["conflict"]
    assert (file.read_bytes(), os.listdir(file.parent)) == (wanted, ["shared.txt"])


def test_who_has_the_file_open_to_write_is_not_cut_off(file: Path) -> None:
    """What they are about to write would go into a file that nobody finds any more."""
    content, stamp = read_file(file, limit_bytes=1 << 20)
    with file.open("ab") as stream:
        with pytest.raises(FileChanged):
            replace_file(file, b"ours", expected=stamp, before=content)
        stream.write(b"theirs")
    assert file.read_bytes() == content + b"theirs"
    assert os.listdir(file.parent) == ["shared.txt"]


def test_what_is_no_file_any_more_stays_so(file: Path) -> None:
    """A directory has taken the file's place; it is put back with all that is in it."""
    process = edit(file, "file-swapping=stop", 1)
    assert os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT) is not None
    file.unlink()
    file.mkdir()
    (file / "inside").write_text("theirs")
    process.send_signal(signal.SIGCONT)
    assert process.communicate()[0].split() == ["conflict"]
    assert ((file / "inside").read_text(), os.listdir(file.parent)) == ("theirs", ["shared.txt"])


def test_a_file_removed_in_the_last_moment_stays_removed(file: Path) -> None:
    process = edit(file, "file-swapping=stop", 1)
    assert os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT) is not None
    file.unlink()
    process.send_signal(signal.SIGCONT)
    assert process.communicate()[0].split() == ["conflict"]
    assert os.listdir(file.parent) == []


def test_no_foreign_edit_is_lost_in_a_race(file: Path, figure: Figure) -> None:
    """One edit of somebody else meets one of ours, again and again, at all distances."""
    seed = new_seed()
    rng = random.Random(seed)
    ours = conflicts = 0
    for n in range(RACES):
        file.write_bytes(b"start\n")
        mark = f"theirs {n}\n".encode()
        wait_s, way = rng.uniform(0, 0.0015), rng.choice((_append_mark, _rename_mark))

        def meddle(
            wait_s: float = wait_s, mark: bytes = mark, way: Callable[[Path, bytes], None] = way
        ) -> None:
            time.sleep(wait_s)
            way(file, mark)

        somebody = threading.Thread(target=meddle)
        somebody.start()
        try:
            content, stamp = read_file(file, limit_bytes=1 << 20)
            replace_file(file, content + b"ours\n", expected=stamp, before=content)
            ours += 1
        except FileChanged:
            conflicts += 1
        somebody.join()
        assert mark in file.read_bytes(), f"round {n}, {way.__name__}; BULLPEN_SEED={seed}"
    assert ours
    assert conflicts
    figure("R-27", "KILL", f"0 of {RACES:,} foreign edits lost in races, {conflicts:,} conflicts told")


def _append_mark(file: Path, mark: bytes) -> None:
    with file.open("ab") as stream:
        stream.write(mark)


def _rename_mark(file: Path, mark: bytes) -> None:
    """As an editor does that saves what it shows."""
    other = file.with_name("theirs.tmp")
    other.write_bytes(b"start\n" + mark)
    other.rename(file)
