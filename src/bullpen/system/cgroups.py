"""Control groups: how the kernel counts what a command takes with all that it starts. Part of the launcher, hence nothing
but the standard library.

A group can be made where the one that we are in is ours to divide: in a service with `Delegate=yes`, in a container with
a writable control group file system, or as root. In the second version of control groups processes stand only in
leaves, so the server first moves to a leaf of its own; that is done only if nobody but its own children is in its group. The first
version has a tree per controller and no such rule. Where none of this is to be had there are no groups, and only
`limits.py` counts.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from typing import NamedTuple

from bullpen.system.trees import Tree

PREFIX = "bullpen-"
SERVER = "bullpen-server"
CONTROLLERS = ("pids", "memory")


class Home(NamedTuple):
    """A directory in which groups can be made, and what is counted there. `version` is 1 or 2."""

    directory: str
    version: int
    counts: tuple[str, ...]


class Group:
    """One command's group, in as many trees as there are."""

    def __init__(self, directories: list[tuple[str, Home]]) -> None:
        self._directories = directories
        self._members: set[int] = set()

    def take(self, pids: Collection[int]) -> None:
        """Have these processes counted here, with all that they start from now on. Takes milliseconds for each."""
        for pid in pids:
            if pid not in self._members:
                for directory, _ in self._directories:
                    with contextlib.suppress(OSError):  # It has ended meanwhile.
                        _write(f"{directory}/cgroup.procs", str(pid))
        self._members = set(pids)

    def over(self) -> str:
        """Which limit the kernel had to hold, `processes` or `memory`; else nothing."""
        for directory, home in self._directories:
            if "pids" in home.counts and _count(f"{directory}/pids.events", "max"):
                return "processes"
            events = "memory.events" if home.version == 2 else "memory.oom_control"
            if "memory" in home.counts and _count(f"{directory}/{events}", "oom_kill"):
                return "memory"
        return ""

    def remove(self) -> None:
        """Nobody is in it any more."""
        for directory, _ in self._directories:
            with contextlib.suppress(OSError):
                os.rmdir(directory)


class Groups:
    """Makes groups below those that we are in."""

    def __init__(self, homes: list[Home]) -> None:
        self._homes = homes

    @classmethod
    def find(cls, server: int, *, processes: str = "/proc") -> Groups:
        """Where groups can be made by this process, a child of the server. None is an answer, not an error."""
        homes: list[Home] = []
        for found in _own(processes):
            with contextlib.suppress(OSError):
                home = _divided(found.directory, server) if found.version == 2 else found
                if home.counts and os.access(home.directory, os.W_OK):
                    homes.append(home)
        groups = cls(homes)
        groups.sweep()
        return groups

    def make(self, name: str, *, processes: int, memory_bytes: int) -> Group:
        """A group with these limits, 0 for none; in no tree at all where none can be made."""
        made: list[tuple[str, Home]] = []
        for home in self._homes:
            limits = _files(home, processes, memory_bytes)
            directory = f"{home.directory}/{PREFIX}{name}"
            with contextlib.suppress(OSError):
                os.mkdir(directory)
                try:
                    for file, value in limits:
                        _write(f"{directory}/{file}", value)
                except OSError:
                    os.rmdir(directory)
                    raise
                made.append((directory, home))
        return Group(made)

    def sweep(self, name: str = "") -> None:
        """Remove the group of that name, or those of launchers that are no more."""
        for home in self._homes:
            names = [f"{PREFIX}{name}"] if name else list(filter(_is_left, os.listdir(home.directory)))
            for each in names:
                with contextlib.suppress(OSError):
                    os.rmdir(f"{home.directory}/{each}")


def _is_left(name: str) -> bool:
    """Whether it was the group of a command whose launcher has ended."""
    launcher, dash, _ = name.removeprefix(PREFIX).partition("-")
    return (
        bool(dash)
        and launcher.isdigit()
        and name.startswith(PREFIX)
        and not os.path.exists(f"/proc/{launcher}")
    )


def _files(home: Home, processes: int, memory_bytes: int) -> list[tuple[str, str]]:
    files: list[tuple[str, str]] = []
    if "pids" in home.counts and processes:
        files.append(("pids.max", str(processes)))
    if "memory" in home.counts and memory_bytes:
        files.append(("memory.max" if home.version == 2 else "memory.limit_in_bytes", str(memory_bytes)))
    return files


def _own(processes: str) -> list[Home]:
    """The groups that this process is in; of those of the second version it is not known yet what they count."""
    try:
        mounts = [line.split() for line in _read(f"{processes}/self/mountinfo").splitlines()]
        member = [line.split(":", 2) for line in _read(f"{processes}/self/cgroup").splitlines()]
    except OSError:
        return []
    found: list[Home] = []
    for mount in mounts:
        root, point = mount[3].rstrip("/"), mount[4]
        kind, options = mount[mount.index("-") + 1], mount[-1].split(",")
        for _, controllers, path in member:
            inside = path.removeprefix(root) if path.startswith(root) else ""
            directory = f"{point}/{inside.strip('/')}".rstrip("/")
            counts = tuple(what for what in CONTROLLERS if what in controllers.split(",") and what in options)
            if kind == "cgroup2" and not controllers:
                found.append(Home(directory, 2, ()))
            elif kind == "cgroup" and counts:
                found.append(Home(directory, 1, counts))
    return found


def _divided(directory: str, server: int) -> Home:
    """Have groups counted below this one, or below the one above where that was done before. Raises OSError."""
    above, _, name = directory.rpartition("/")
    home = above if name == SERVER else directory
    counted = _words(f"{home}/cgroup.subtree_control")
    wanted = [what for what in CONTROLLERS if what in _words(f"{home}/cgroup.controllers") - counted]
    members = {int(pid) for pid in _words(f"{home}/cgroup.procs")}
    if wanted and members <= {server, *Tree(server).look()}:
        leaf = f"{home}/{SERVER}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(leaf)
        for pid in members:
            _write(f"{leaf}/cgroup.procs", str(pid))
        _write(f"{home}/cgroup.subtree_control", " ".join(f"+{what}" for what in wanted))
        counted |= set(wanted)
    return Home(home, 2, tuple(what for what in CONTROLLERS if what in counted))


def _words(file: str) -> set[str]:
    return set(_read(file).split())


def _read(file: str) -> str:
    with open(file, encoding="utf-8", errors="surrogateescape") as opened:
        return opened.read()


def _write(file: str, value: str) -> None:
    with open(file, "w", encoding="utf-8") as opened:
        opened.write(value)


def _count(file: str, name: str) -> int:
    try:
        lines = [line.split() for line in _read(file).splitlines()]
    except OSError:
        return 0
    return next((int(words[1]) for words in lines if words[:1] == [name]), 0)
