"""Finding files by name and lines by content, with the real ripgrep."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import anyio
import pytest
from tests.tools.conftest import Bench
from tests.tools.test_ls import fill

from bullpen.system import ripgrep
from bullpen.tools import grep as grep_module
from bullpen.tools import searching
from bullpen.tools.base import Outcome
from bullpen.tools.searching import MAX_ROWS


def write(root: Path, **contents: str) -> None:
    for name, content in contents.items():
        (root / name).write_text(content)


def age(file: Path, seconds: int) -> None:
    at = 1_700_000_000 - seconds
    os.utime(file, (at, at))


def names(outcome: Outcome, root: Path) -> list[str]:
    """The files that an answer of glob lists."""
    lines = outcome.content.split("\n\n")[0].splitlines()
    return [line.removeprefix(f"{root}/") for line in lines if line.startswith("/")]


async def found(bench: Bench, pattern: str, **more: str) -> list[str]:
    return sorted(names(await bench.call("glob", pattern=pattern, **more), bench.root))


# glob


async def test_the_file_that_changed_last_comes_first(bench: Bench) -> None:
    """Whatever the lengths of their paths."""
    fill(bench.root, "a.py", "deep/down/b.py", "deep/c.py")
    for seconds, name in enumerate(("deep/down/b.py", "a.py", "deep/c.py")):
        age(bench.root / name, seconds)
    outcome = await bench.call("glob", pattern="**/*.py")
    assert names(outcome, bench.root) == ["deep/down/b.py", "a.py", "deep/c.py"]
    assert outcome.metadata == {"number_of_files": 3, "truncated": False}
    assert bench.asked == []


async def test_what_is_ignored_is_not_found(bench: Bench) -> None:
    """By git or by ours, at every level, also when the search begins below; nor clutter, nor hidden names unasked."""
    fill(bench.root, "a.log", "sub/b.log", "sub/c.txt", "sub/x/d.txt", "node_modules/m.txt", ".hid/e.txt")
    fill(bench.root, "sub/own.tmp", ".git/config", "sub/secret.txt", "sub/.env")
    (bench.root / ".gitignore").write_text("*.log\n")
    (bench.root / "sub/.gitignore").write_text("*.tmp\n")
    (bench.root / ".crushignore").write_text("secret.txt\n")
    assert await found(bench, "**/*") == ["sub/c.txt", "sub/x/d.txt"]
    assert await found(bench, "*", path="sub") == ["sub/c.txt"]
    assert await found(bench, "**/*.{log,tmp}") == []
    assert await found(bench, ".hid/*") == [".hid/e.txt"]
    assert await found(bench, "**/.env") == ["sub/.env"]
    assert await found(bench, ".git/*") == [".git/config"]
    assert await found(bench, "*", path="node_modules") == ["node_modules/m.txt"]


@pytest.mark.parametrize("name", ["build", "bin", "out", "node_modules", ".git", "-x", "a b"])
async def test_the_directory_of_a_workspace_may_have_any_name(bench: Bench, name: str) -> None:
    """What lies above it, names or ignore files, does not count."""
    (bench.root / ".gitignore").write_text("*\n")
    bench.root = bench.root / name / "work"
    bench.root.mkdir(parents=True)
    write(bench.root, a="needle\n")
    assert await found(bench, "**/*") == ["a"]
    outcome = await bench.call("grep", pattern="needle")
    assert outcome.metadata == {"number_of_matches": 1, "truncated": False}


async def test_patterns_begin_anywhere(bench: Bench) -> None:
    """Relative to a path, from the root of all, or at home; outside they are asked for."""
    outside = bench.root.parent / "outside"
    fill(bench.root, "sub/a.py")
    fill(outside, "b.py")
    assert await found(bench, "sub/*.py") == ["sub/a.py"]
    assert await found(bench, f"{bench.root}/sub/a.py") == ["sub/a.py"]
    assert bench.asked == []
    outcome = await bench.call("glob", pattern="../outside/*.py")
    assert outcome.content == str(outside / "b.py")
    (asked,) = bench.asked
    assert (asked.action, asked.path, asked.reach.paths) == ("list", outside, (outside,))
    (bench.root / "link").symlink_to(outside)
    await bench.call("glob", pattern="*.py", path="link")
    assert bench.asked[-1].path == outside


async def test_too_many_files_are_cut(bench: Bench) -> None:
    """And told."""
    fill(bench.root, *(f"{n}.txt" for n in range(MAX_ROWS + 5)))
    outcome = await bench.call("glob", pattern="*.txt")
    assert outcome.metadata == {"number_of_files": MAX_ROWS, "truncated": True}
    assert (len(names(outcome, bench.root)), "newest 100 of 105" in outcome.content) == (MAX_ROWS, True)


async def test_patterns_that_find_nothing_are_answered(bench: Bench) -> None:
    """With what could be tried, and as an error only where something is wrong."""
    fill(bench.root, "sub/a.py")
    nothing = await bench.call("glob", pattern="*.py")
    assert (nothing.is_error, "**/*.py" in nothing.content) == (False, True)
    for pattern in ("", "*/../..", "{a,b}" * 20, "nowhere/*.py"):
        assert (await bench.call("glob", pattern=pattern)).is_error, pattern


# grep


async def test_lines_are_found_with_their_places(bench: Bench) -> None:
    """Newest file first; columns count characters; a path may be one file."""
    write(bench.root, a="x\n  ä needle needle\n", b="needle\r\n")
    age(bench.root / "a", 1)
    age(bench.root / "b", 0)
    outcome = await bench.call("grep", pattern="need.e")
    assert outcome.content == (
        f"Found 2 matches\n\n{bench.root}/b:\n  Line 1, Char 1: needle\n\n"
        f"{bench.root}/a:\n  Line 2, Char 5:   ä needle needle"
    )
    assert outcome.metadata == {"number_of_matches": 2, "truncated": False}
    one = await bench.call("grep", pattern="needle", path="b")
    assert one.content == f"Found 1 match\n\n{bench.root}/b:\n  Line 1, Char 1: needle"
    assert (await bench.call("grep", pattern="absent")).content == "No matches found."


@pytest.mark.parametrize(
    "pattern", ["-x", "--files", "--pre=touch pwned", "-e", "--", "--hostname-bin=./x", "-f/etc/passwd"]
)
@pytest.mark.parametrize("literal", [True, False])
async def test_a_pattern_is_never_an_option(bench: Bench, pattern: str, literal: bool) -> None:
    """However it begins."""
    write(bench.root, a=f"see {pattern} here\n")
    outcome = await bench.call("grep", pattern=pattern, literal_text=literal)
    assert "Line 1, Char 5: see" in outcome.content
    assert sorted(os.listdir(bench.root)) == ["a"]


async def test_files_are_chosen_by_name(bench: Bench) -> None:
    """With and without directories; what is ignored stays so."""
    (bench.root / "src/x").mkdir(parents=True)
    write(
        bench.root,
        **{
            "a.py": "needle",
            "b.js": "needle",
            "src/c.py": "needle",
            "src/x/d.py": "needle",
            "no.py": "needle",
        },
    )
    (bench.root / ".gitignore").write_text("no.py\n")

    async def files(include: str) -> list[str]:
        outcome = await bench.call("grep", pattern="needle", include=include)
        return sorted(
            line.removeprefix(f"{bench.root}/").rstrip(":")
            for line in outcome.content.splitlines()
            if line.startswith("/")
        )

    assert await files("*.py") == ["a.py", "src/c.py", "src/x/d.py"]
    assert await files("*.{js,ts}") == ["b.js"]
    assert await files("src/**/*.py") == ["src/c.py", "src/x/d.py"]
    assert await files("src/*.py") == ["src/c.py"]
    assert await files("[ab].*") == ["a.py", "b.js"]


async def test_a_long_line_is_shown_around_the_match(bench: Bench) -> None:
    """However long it is."""
    write(bench.root, a="x" * 100_000 + "needle" + "y" * 100_000)
    outcome = await bench.call("grep", pattern="needle")
    assert "xneedley" in outcome.content
    assert len(outcome.content) < 2000


async def test_more_matches_than_are_shown_are_told(bench: Bench) -> None:
    """In one file or in many; ripgrep is ended once there is enough."""
    write(bench.root, one="needle\n" * 500)
    outcome = await bench.call("grep", pattern="needle")
    assert outcome.metadata == {"number_of_matches": MAX_ROWS, "truncated": True}
    assert "There are more" in outcome.content


async def test_output_past_the_limit_ends_the_search(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before is shown."""
    monkeypatch.setattr(grep_module, "MAX_OUTPUT_BYTES", 500)
    for n in range(50):
        write(bench.root, **{f"f{n}": "needle\n" * 10})
    outcome = await bench.call("grep", pattern="needle")
    assert (outcome.is_error, "There are more" in outcome.content) == (False, True)


async def test_a_part_that_fails_does_not_take_the_rest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results are kept, and a note says what is missing."""
    write(bench.root, a="needle\n")
    always = (*ripgrep.ALWAYS, "--ignore-messages", "--ignore-file=/nowhere")
    monkeypatch.setattr(ripgrep, "ALWAYS", always)
    outcome = await bench.call("grep", pattern="needle")
    assert "Line 1, Char 1: needle" in outcome.content
    assert re.search(r"\(Not all could be searched: 1 × [\w ]+ \(os error \d+\)\)", outcome.content)
    assert "nowhere" not in outcome.content


@pytest.mark.parametrize("pattern", ["(a", "(?=x)", "a{1000}{1000}{1000}", r"(a)\1", "x\ny", ""])
async def test_a_pattern_that_cannot_be_searched_is_explained(bench: Bench, pattern: str) -> None:
    """As an error for the model, with what to do."""
    write(bench.root, a="text\n")
    outcome = await bench.call("grep", pattern=pattern)
    assert outcome.is_error, outcome.content


@pytest.mark.timeout(30)
async def test_patterns_take_no_more_time_than_the_text(bench: Bench) -> None:
    """Those that explode elsewhere are harmless here."""
    write(bench.root, a="a" * 1_000_000 + "\n")
    for pattern in ("(a+)+b", "(a|a)*b", "(.*a){20}b", "a*" * 50 + "b"):
        outcome = await bench.call("grep", pattern=pattern)
        assert outcome.content == "No matches found.", pattern


def stuck(root: Path, monkeypatch: pytest.MonkeyPatch, says: str = "") -> None:
    """A ripgrep that finds something and then never ends."""
    script = root.parent / "rg"
    script.write_text(f"#!/bin/sh\nprintf '{says}'\ntouch started\nexec sleep 600\n")
    script.chmod(0o755)
    monkeypatch.setattr(ripgrep, "program", lambda: str(script))


async def test_a_search_ends_in_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the config; what was found until then is kept, and a model is told how to search for less."""
    write(bench.root, a="text\n")
    bench.limits = {"grep": {"timeout_s": 0.2}, "glob": {"timeout_s": 0.2}}
    stuck(bench.root, monkeypatch)
    outcome = await bench.call("grep", pattern="text")
    assert (outcome.is_error, "smaller path" in outcome.content) == (True, True)
    bench.limits = {"grep": {"timeout_s": 3}, "glob": {"timeout_s": 3}}
    stuck(bench.root, monkeypatch, "./a\\0001:1:0:text\\n")
    outcome = await bench.call("grep", pattern="text")
    assert ("Line 1, Char 1: text" in outcome.content, outcome.is_error) == (True, False)
    assert "Not all was searched within 3 s" in outcome.content
    stuck(bench.root, monkeypatch, "./a\\0")
    assert "Not all was searched within 3 s" in (await bench.call("glob", pattern="*")).content
    assert running_in(bench.root) == []


async def test_nothing_outlives_a_cancelled_search(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cancel ends the program before it goes on."""
    stuck(bench.root, monkeypatch)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: bench.call("grep", pattern="x"))
        await anyio.to_thread.run_sync(until_exists, bench.root / "started")
        assert len(running_in(bench.root)) == 1
        tasks.cancel_scope.cancel()
    assert running_in(bench.root) == []


def until_exists(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def running_in(root: Path) -> list[str]:
    """Processes that were started in the directory."""
    return [pid for pid in os.listdir("/proc") if pid.isdecimal() and _directory_of(pid) == str(root)]


def _directory_of(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


async def test_a_search_outside_is_asked_for(bench: Bench) -> None:
    """By its real place: relative, through a link, at home. Links are not followed on the way."""
    outside = bench.root.parent / "outside"
    write(outside, secret="needle\n")
    (bench.root / "link").symlink_to(outside)
    (bench.root / "file").symlink_to(outside / "secret")
    assert (await bench.call("grep", pattern="needle")).content == "No matches found."
    assert await found(bench, "**/*") == []
    assert bench.asked == []
    for path in ("link", "../outside", str(outside)):
        outcome = await bench.call("grep", pattern="needle", path=path)
        assert "Line 1" in outcome.content
        asked = bench.asked.pop()
        assert (asked.action, asked.path, asked.reach.paths) == ("read", outside, (outside,))
    await bench.call("grep", pattern="needle", path="file")
    assert bench.asked.pop().path == outside / "secret"


async def test_other_encodings_are_searched(bench: Bench) -> None:
    """UTF-16 by its mark; bytes that are no UTF-8 are no obstacle; binary files are left out."""
    (bench.root / "wide").write_bytes("x\nnadel grün\n".encode("utf-16"))
    (bench.root / "latin").write_bytes(b"gr\xfcn nadel\n")
    (bench.root / "binary").write_bytes(b"\0nadel\n")
    outcome = await bench.call("grep", pattern="nadel")
    assert "Line 2, Char 1: nadel grün" in outcome.content
    assert "gr\ufffdn nadel" in outcome.content
    assert outcome.metadata == {"number_of_matches": 2, "truncated": False}


async def test_ripgrep_is_the_one_that_came_with_us(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a PATH nor a config of its own changes that."""
    (bench.root / "rg").write_text("#!/bin/sh\ntouch pwned\n")
    (bench.root / "rg").chmod(0o755)
    (bench.root / "config").write_text("--pre=./rg\n")
    monkeypatch.setenv("PATH", f"{bench.root}:{os.environ['PATH']}")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(bench.root / "config"))
    await bench.call("grep", pattern="x")
    assert not (bench.root / "pwned").exists()


def test_what_could_not_be_searched_is_told_without_names() -> None:
    """A directory that became a link while it was searched leads to names of other places."""
    problems = "rg: ./d/secret-name: No such file or directory (os error 2)\nrg: ./d/a: b: Permission denied (os error 13)\nrg: odd\n"
    told = searching.complaint(problems)
    assert (
        told
        == "1 × No such file or directory (os error 2), 1 × Permission denied (os error 13), 1 × another problem"
    )
