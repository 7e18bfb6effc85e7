"""File tools stay inside the workspace, whatever a path looks like and whatever becomes of it meanwhile (X-14)."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.campaign import sized
from tests.conftest import Figure
from tests.internet import World, answer, authority, trust, world
from tests.tools.conftest import Asked, Bench, bench, online, root

from bullpen.tools.base import Outcome, PermissionDenied

__all__ = ["authority", "bench", "online", "root", "trust", "world"]

CANARY = "canary-in-a-file-outside"
NFC, NFD = unicodedata.normalize("NFC", "café"), unicodedata.normalize("NFD", "café")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


Make = Callable[[Path, Path], str]
"""Lays a trap in the workspace; gives back the path that leads into it."""

TRAPS: dict[str, Make] = {}


def trap(name: str) -> Callable[[Make], Make]:
    def keep(make: Make) -> Make:
        TRAPS[name] = make
        return make

    return keep


def _linked(name: str, target: Callable[[Path, Path], str], path: str) -> None:
    def make(root: Path, outside: Path) -> str:
        link = root / name.replace(" ", "-")
        link.symlink_to(target(root, outside))
        return path.format(link=link, name=link.name, root=root, outside=outside)

    TRAPS[name] = make


def _plain(name: str, path: str) -> None:
    TRAPS[name] = lambda root, outside: path.format(
        root=root, here=root.name, outside=outside, up=f"../{outside.name}"
    )


for _name, _path in {
    "absolute": "{outside}/secret.txt",
    "absolute directory": "{outside}",
    "up": "{up}/secret.txt",
    "up with a dot": "./{up}/secret.txt",
    "down and up": "sub/../{up}/secret.txt",
    "up from what is not there": "nowhere/../{up}/secret.txt",
    "up from a file": "plain.txt/../{up}/secret.txt",
    "two slashes": "//{outside}/secret.txt",
    "slashes and dots": "{root}/.//..//./outside/./secret.txt",
    "a slash at the end": "{up}/",
    "many ups": "../../../../../../../../../../../../../../../..{outside}/secret.txt",
    "by the process": "/proc/self/root{outside}/secret.txt",
    "by the thread": "/proc/thread-self/root{outside}/secret.txt",
    "by its directory": "/proc/self/cwd/../../../../../../../../../..{outside}/secret.txt",
    "by process 1": "/proc/1/root{outside}/secret.txt",
    "the environment": "/proc/self/environ",
    "a sibling with the same beginning": "{root}-evil/secret.txt",
    "a sibling, relative": "../work-evil/secret.txt",
    "a sibling without a dash": "{root}x/secret.txt",
    "another case": "../OUTSIDE/../outside/secret.txt",
    "a link beside the workspace": "../beside/secret.txt",
    "back in and out": "../{here}/{up}/secret.txt",
    "device": "/dev/zero",
    "standard input": "/dev/stdin",
    "terminal": "/dev/tty",
    "descriptors": "/dev/fd",
    "the password file": "/etc/passwd",
    "home": "~/secret.txt",
    "somebody's home": "~root/secret.txt",
    "nobody's home": "~nobody-of-that-name/../../{outside}/secret.txt",
}.items():
    _plain(_name, _path)

for _name, _path in {
    "escaped dots": "%2e%2e/outside/secret.txt",
    "escaped slash": "..%2foutside%2fsecret.txt",
    "backslashes": "..\\outside\\secret.txt",
    "wide dots": "．．/outside/secret.txt",
    "one-character dots": "‥/outside/secret.txt",
    "wide slash": "..／outside／secret.txt",
    "a file address": "file://{outside}/secret.txt",
    "a variable": "$OUTSIDE/secret.txt",
    "a space before": " {outside}/secret.txt",
    "a space at the end": "{outside}/secret.txt ",
    "a line break": "plain.txt\n{outside}/secret.txt",
    "a nul": "plain.txt\0{outside}/secret.txt",
    "a nul at the end": "{outside}/secret.txt\0",
    "a long name": "x" * 300,
    "a long path": "x/" * 3000,
    "a wildcard": "{up}/*",
    "braces": "{up}/{{secret,other}}.txt",
    "an option": "--follow",
    "an option with a path": "-f{outside}/secret.txt",
    "another program": "--pre=/bin/cat",
}.items():
    _plain(_name, _path)

for _name, (_target, _path) in {
    "link to a file": ("{outside}/secret.txt", "{link}"),
    "link by its name": ("{outside}/secret.txt", "{name}"),
    "link to a directory": ("{outside}", "{name}"),
    "through a link": ("{outside}", "{name}/secret.txt"),
    "deep through a link": ("{outside}", "{name}/deep/secret.txt"),
    "relative link": ("../outside/secret.txt", "{name}"),
    "relative link to a directory": ("../outside", "{name}/secret.txt"),
    "link to the root": ("/", "{name}{outside}/secret.txt"),
    "link upwards": ("..", "{name}/outside/secret.txt"),
    "a link and up": ("{outside}/deep", "{name}/../secret.txt"),
    "a link and up, absolute": ("{outside}/deep", "{link}/../secret.txt"),
    "a link to itself": ("a-link-to-itself", "{name}/../../outside/secret.txt"),
    "link to a link": ("hop", "{name}"),
    "through a link to a link": ("hop-dir", "{name}/secret.txt"),
    "dangling link": ("{outside}/new.txt", "{name}"),
    "dangling link to a directory": ("{outside}/new", "{name}/new.txt"),
    "through a dangling link": ("{outside}/new", "{name}/deep/new.txt"),
    "link to the process": ("/proc/self/root{outside}", "{name}/secret.txt"),
    "link to a descriptor": ("/proc/self/fd", "{name}/0"),
    "link to a device": ("/dev/zero", "{name}"),
    "link to a sibling": ("{root}-evil", "{name}/secret.txt"),
    "link with another name for up": ("{root}/sub/../../outside", "{name}/secret.txt"),
    "link that ends in a dot": ("{outside}/.", "{name}/secret.txt"),
    "link with a picture's name.png": ("{outside}/secret.txt", "{name}"),
}.items():
    _linked(
        _name,
        lambda root, outside, target=_target: target.format(root=root, outside=outside),  # type: ignore[misc]
        _path,
    )


@trap("link in another normal form")
def _(root: Path, outside: Path) -> str:
    (root / NFC).write_text("inside")
    (root / NFD).symlink_to(outside / "secret.txt")
    return NFD


@trap("link in another case")
def _(root: Path, outside: Path) -> str:
    (root / "readme").write_text("inside")
    (root / "README").symlink_to(outside / "secret.txt")
    return "README"


@trap("link with a name that is no UTF-8")
def _(root: Path, outside: Path) -> str:
    os.symlink(os.fsencode(outside / "secret.txt"), os.fsencode(root) + b"/\xff")
    return "\udcff"


@trap("pipe")
def _(root: Path, outside: Path) -> str:
    os.mkfifo(root / "pipe")
    return "pipe"


@trap("link to a pipe")
def _(root: Path, outside: Path) -> str:
    (root / "to-pipe").symlink_to(outside / "pipe")
    return "to-pipe"


@trap("socket")
def _(root: Path, outside: Path) -> str:
    with socket.socket(socket.AF_UNIX) as bound, contextlib.chdir(root):
        bound.bind("sock")
    return "sock"


@trap("ignore files that are links")
def _(root: Path, outside: Path) -> str:
    """What is said of a wrong pattern would repeat the line."""
    for name in (".gitignore", ".ignore", ".rgignore", ".bullpenignore", "sub/.gitignore"):
        (root / name).symlink_to(outside / "pattern")
    return "."


@trap("ignore files that are pipes")
def _(root: Path, outside: Path) -> str:
    for name in (".gitignore", ".bullpenignore", ".crushignore", "sub/.gitignore"):
        os.mkfifo(root / name)
    return "sub"


def lay_out(root: Path) -> Path:
    """Something inside, and secrets all around."""
    outside = root.parent / "outside"
    for place in (outside, outside / "deep", root.parent / "work-evil", root.parent / "workx"):
        place.mkdir(exist_ok=True)
        (place / "secret.txt").write_text(f"{CANARY}\n")
    (outside / f"{CANARY}-name.txt").write_text("x\n")
    (outside / "pattern").write_text(f"a[{CANARY}\n{{{CANARY}\n")
    os.mkfifo(outside / "pipe")
    (root.parent / "beside").symlink_to(outside)
    (root / "sub").mkdir()
    (root / "plain.txt").write_text("inside\n")
    (root / "hop").symlink_to(outside / "secret.txt")
    (root / "hop-dir").symlink_to(outside)
    return outside


def state_of(top: Path) -> dict[str, str]:
    """Everything below, with its content, so that any change shows."""
    found: dict[str, str] = {}
    for folder, _, names in os.walk(top):
        found[folder] = "directory"
        for name in names:
            path = Path(folder, name)
            found[str(path)] = path.read_text() if path.is_file() else "other"
    return found


CALLS: dict[str, Callable[[str], tuple[str, dict[str, Any]]]] = {
    "view": lambda path: ("view", {"file_path": path}),
    "ls": lambda path: ("ls", {"path": path}),
    "glob": lambda path: ("glob", {"pattern": "**/*", "path": path}),
    "glob by its pattern": lambda path: ("glob", {"pattern": f"{path}/**/*"}),
    "grep": lambda path: ("grep", {"pattern": ".", "path": path}),
    "edit": lambda path: ("edit", {"file_path": path, "old_string": CANARY, "new_string": "changed"}),
    "edit, to create": lambda path: ("edit", {"file_path": path, "old_string": "", "new_string": "made"}),
    "multiedit": lambda path: (
        "multiedit",
        {"file_path": path, "edits": [{"old_string": "x", "new_string": "changed"}]},
    ),
    "write": lambda path: ("write", {"file_path": path, "content": "changed"}),
    "download": lambda path: ("download", {"file_path": path, "url": "http://site.test/file"}),
}


@pytest.fixture
def walled(online: Bench, world: World, root: Path) -> Bench:
    """Nobody agrees to anything outside; inside everything is agreed to."""
    world.site.pages["/file"] = answer(b"changed", content_type="text/plain")

    def guard(asked: Asked) -> None:
        if not all(path.is_relative_to(root) for path in asked.reach.paths or (asked.path,)):
            raise PermissionDenied

    online.on_permit = guard
    return online


@pytest.mark.parametrize("tool", CALLS)
async def test_no_trap_leads_out(
    walled: Bench, root: Path, tool: str, monkeypatch: pytest.MonkeyPatch, figure: Figure
) -> None:
    """Nothing of what lies outside is shown or changed, and every answer says what is wrong in words."""
    outside = lay_out(root)
    monkeypatch.setenv("HOME", str(outside))
    monkeypatch.setenv("OUTSIDE", str(outside))
    paths = {name: make(root, outside) for name, make in TRAPS.items() if not name.startswith("ignore files")}
    before = {top: state_of(root.parent / top) for top in ("outside", "work-evil", "workx")}
    for name, path in paths.items():
        given, arguments = CALLS[tool](path)
        # As if the session had read it once: a file that nobody has read is refused before.
        walled.files.reads = {walled.resolve(path): time.time() + 60} if "\0" not in path else {}
        outcome = await walled.call(given, **arguments)
        assert CANARY not in outcome.content.replace(path, ""), name
    assert before == {top: state_of(root.parent / top) for top in before}
    figure("X-14", "ATTK", f"{len(paths)} traps for {tool}: 0 led out")


@pytest.mark.parametrize("name", [name for name in TRAPS if name.startswith("ignore files")])
@pytest.mark.parametrize("tool", ["ls", "glob", "grep"])
async def test_ignore_files_neither_tell_nor_hold(walled: Bench, root: Path, tool: str, name: str) -> None:
    outside = lay_out(root)
    walled.limits = {"grep": {"timeout_s": 1}, "glob": {"timeout_s": 1}}
    given, arguments = CALLS[tool](TRAPS[name](root, outside))
    outcome = await walled.call(given, **arguments)
    assert CANARY not in outcome.content


async def test_the_other_name_of_a_file_keeps_its_content(walled: Bench, root: Path) -> None:
    """A hard link is a file of the workspace like any other; changing it changes the workspace alone."""
    outside = lay_out(root)
    for tool in ("edit", "multiedit", "write", "download"):
        inside = root / f"hard-{tool}"
        os.link(outside / "secret.txt", inside)
        walled.files.reads = {inside: time.time() + 60}
        given, arguments = CALLS[tool](inside.name)
        if tool == "multiedit":
            arguments["edits"][0]["old_string"] = CANARY
        outcome = await walled.call(given, **arguments)
        assert (outcome.is_error, inside.read_text().strip()) == (False, "changed")
    assert (outside / "secret.txt").read_text() == f"{CANARY}\n"


@contextlib.contextmanager
def swapping(root: Path, outside: Path) -> Iterator[list[int]]:
    """Two names that are now a directory and a file of the workspace, and now links that lead out, as fast as it goes."""
    away, swaps, stop = root.parent / "away", [0], threading.Event()
    (root / "d").mkdir()
    (root / "d" / "secret.txt").write_text("inside\n")
    (root / "f").write_text("inside\n")
    (away).mkdir()
    (away / "link-d").symlink_to(outside)
    (away / "link-f").symlink_to(outside / "secret.txt")

    def swap() -> None:
        while not stop.is_set():
            for name in ("d", "f"):
                with contextlib.suppress(OSError):
                    os.rename(root / name, away / f"real-{name}")
                    os.rename(away / f"link-{name}", root / name)
                    os.rename(root / name, away / f"link-{name}")
                    if os.path.lexists(
                        root / name
                    ):  # Somebody made a new one: that is the real one from now on.
                        os.unlink(away / f"real-{name}")
                    else:
                        os.rename(away / f"real-{name}", root / name)
                swaps[0] += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield swaps
    finally:
        stop.set()
        thread.join()


RACES: dict[str, tuple[str, int]] = {
    "view": ("d/secret.txt", 1),
    "ls": (".", 1),
    "glob": ("d", 10),
    "grep": ("d", 10),
    "edit": ("d/secret.txt", 1),
    "write": ("f", 1),
    "multiedit": ("f", 1),
    "edit, to create": ("d/new.txt", 1),
    "download": ("d/secret.txt", 5),
}
"""Where each tool is sent, and how much longer than the others it takes."""

CHANGES: dict[str, dict[str, Any]] = {
    "edit": {"old_string": "inside", "new_string": "inside x"},
    "multiedit": {"edits": [{"old_string": "inside", "new_string": "inside x"}]},
}
"""What they can do there again and again."""


@pytest.mark.parametrize("tool", RACES)
@pytest.mark.timeout(1200)
async def test_no_swap_leads_out(walled: Bench, root: Path, tool: str, figure: Figure) -> None:
    """What was looked at is what is touched, or nothing is."""
    outside = lay_out(root)
    path, cost = RACES[tool]
    before = state_of(outside)
    times = sized(100, 16_000) // cost
    inside = 0
    with swapping(root, outside) as swaps:
        for _ in range(times):
            walled.files.reads = {root / path: time.time() + 60}
            if tool == "edit, to create":
                # What is there cannot be created; where the name leads out there is no such file.
                with contextlib.suppress(OSError):
                    os.unlink(root / path)
            given, arguments = CALLS[tool](path)
            outcome: Outcome = await walled.call(given, **(arguments | CHANGES.get(tool, {})))
            assert CANARY not in outcome.content
            inside += not outcome.is_error
    assert state_of(outside) == before
    assert swaps[0] > 0
    figure(
        "X-14",
        "ATTK",
        f"{times:,} calls of {tool} against {swaps[0]:,} swaps: 0 led out, {inside:,} were answered",
    )
