"""How much one command and all that it starts may take: processes, memory, descriptors, the size of a file, time.

Used by the server, which says the limits, and by the launcher, which keeps them; so there is nothing here but the
standard library. The kernel has no limit for a tree of processes that everybody may set, hence three ways together:

* what the kernel can hold for each process is set before the command begins (`hold`);
* the command's keeper looks at the whole tree a few times a second (`Watch`) and ends it when it is over;
* a command that is still there at the first look is put into a control group, where we may make one (`cgroups.py`):
  from then on the kernel counts, too. To enter one takes milliseconds, which most commands do not last.

Memory is what belongs to the tree alone. Reading that exactly is slow, so it is only done when a quick
sum, which counts a page once for every process that shares it since a fork, is already too much.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import sys
import time
from typing import NamedTuple

from bullpen.system.cgroups import Group, Groups
from bullpen.system.trees import Tree

NICENESS = 5
"""Commands stand back a little behind the server, which has to answer while they compile."""

OOM_SCORE = 500
"""When the machine runs out of memory, the kernel ends a command before it ends the server."""

TASKS_PER_PROCESS = 16
"""A process may have threads; a tree with so many times more of them than processes allowed is over, too."""

CALM_S = 0.5
BRISK_S = 0.05
"""How often a tree is looked at, and how often one that is close to a limit or has just begun."""

YOUNG_S = 2.0


class Limits(NamedTuple):
    """0 is no limit."""

    processes: int = 0
    memory_bytes: int = 0
    open_files: int = 0
    file_bytes: int = 0
    cpu_s: float = 0.0
    time_s: float = 0.0


NO_LIMITS = Limits()
USUAL_LIMITS = Limits(processes=256, memory_bytes=2 << 30, open_files=1024, file_bytes=1 << 30)


def describe(over: str, limits: Limits) -> str:
    """Which limit ended a command, for whoever ran it: it …"""
    match over:
        case "processes":
            return f"had more than {limits.processes} processes (options.command_limits.processes)"
        case "memory":
            return (
                f"took more than {limits.memory_bytes >> 20} MiB of memory (options.command_limits.memory_mb)"
            )
        case "file":
            return f"wrote a file larger than {limits.file_bytes >> 20} MiB (options.command_limits.file_mb)"
        case "cpu":
            return f"took more than {limits.cpu_s:g} s of a processor (options.command_limits.cpu)"
        case _:
            return f"took longer than {limits.time_s:g} s"


def hold(limits: Limits, niceness: int) -> None:
    """Set what the kernel holds, for this process and all that it will start."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    _lower(resource.RLIMIT_FSIZE, limits.file_bytes)
    # At the first a signal that says why, a little later one that cannot be ignored.
    _lower(resource.RLIMIT_CPU, math.ceil(limits.cpu_s), spare=2)
    # What a process may write to, and not its address space, of which runtimes reserve far more than they use. Twice
    # the limit, since stacks of threads count whole: it bounds what can happen between two looks.
    _lower(resource.RLIMIT_DATA, 2 * limits.memory_bytes)
    if limits.processes and os.geteuid() != 0:
        # It counts all tasks of the user, so all tasks of the machine are granted on top. Root has no such limit.
        with contextlib.suppress(OSError):
            _lower(resource.RLIMIT_NPROC, _tasks_now() + 4 * limits.processes)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    with contextlib.suppress(OSError):
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(score, b"%d" % OOM_SCORE)
        os.close(score)


def _lower(which: int, limit: int, *, spare: int = 0) -> None:
    if not limit:
        return
    _, hard = resource.getrlimit(which)
    most = limit + spare if hard == resource.RLIM_INFINITY else min(limit + spare, hard)
    resource.setrlimit(which, (min(limit, most), most))


def _tasks_now() -> int:
    with open("/proc/loadavg", "rb") as file:
        return int(file.read().split()[3].partition(b"/")[2])


class Watch:
    """Looks whether the descendants of a process are within limits. `name` is that of their control group."""

    def __init__(self, root: int, limits: Limits, groups: Groups, name: str) -> None:
        self._root = root
        self._tree = Tree(root)
        self._limits = limits
        self._groups = groups
        self._name = name
        self._group: Group | None = None
        self._began = time.monotonic()
        self._due = self._began + BRISK_S
        self._is_near = False
        self._looks = sys.platform == "linux" and bool(limits.processes or limits.memory_bytes)

    def pause(self) -> float | None:
        """How long to wait before the next look; None for ever."""
        now = time.monotonic()
        waits = [self._due - now] if self._looks else []
        if self._limits.time_s:
            waits.append(self._began + self._limits.time_s - now)
        return max(min(waits), 0.0) if waits else None

    def over(self) -> str:
        """The limit that the tree is over, or nothing. Cheap when it is not time to look again."""
        now = time.monotonic()
        if self._limits.time_s and now - self._began >= self._limits.time_s:
            return "time"
        if not self._looks or now < self._due:
            return ""
        found = self._look()
        self._due = time.monotonic() + (BRISK_S if self._is_near or now - self._began < YOUNG_S else CALM_S)
        return found

    def held(self) -> str:
        """The limit that the kernel had to hold by itself, or nothing."""
        return self._group.over() if self._group is not None else ""

    def close(self) -> None:
        """Nothing is left to look at."""
        if self._group is not None:
            self._group.remove()

    def _look(self) -> str:
        if found := self.held():
            return found
        limits, pids = self._limits, self._members()
        most, memory = limits.processes or sys.maxsize, limits.memory_bytes or sys.maxsize
        if len(pids) > most or sum(map(_tasks_of, pids)) > TASKS_PER_PROCESS * most:
            return "processes"
        crude = sum(map(_quick_memory, pids))
        if crude > memory and sum(map(_own_memory, pids)) > memory:
            return "memory"
        self._is_near = 4 * len(pids) > most or 2 * crude > memory
        if self._group is None:
            self._group = self._groups.make(
                self._name, processes=limits.processes, memory_bytes=limits.memory_bytes
            )
        self._group.take(pids)
        return ""

    def _members(self) -> list[int]:
        """As far as they can be seen without looking at all of the machine, where the kernel lists children."""
        if not _LISTS_CHILDREN:
            return list(self._tree.look())
        found: list[int] = []
        waiting = [self._root]
        while waiting:
            pid = waiting.pop()
            with contextlib.suppress(OSError):
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                        children = [int(child) for child in file.read().split()]
                    waiting += children
                    found += children
        return found


_LISTS_CHILDREN = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


def _tasks_of(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def _quick_memory(pid: int) -> int:
    """Memory of a process that no file stands behind."""
    return _sum_of(f"/proc/{pid}/status", (b"RssAnon:", b"RssShmem:"))


def _own_memory(pid: int) -> int:
    """The same, where a page that several processes share counts once in all."""
    exact = _sum_of(f"/proc/{pid}/smaps_rollup", (b"Pss_Anon:", b"Pss_Shmem:"))
    return exact or _quick_memory(pid)


def _sum_of(file: str, fields: tuple[bytes, ...]) -> int:
    try:
        with open(file, "rb") as lines:
            return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(fields))
    except (OSError, ValueError, IndexError):
        return 0
