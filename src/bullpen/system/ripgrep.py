"""Runs ripgrep, which came with the package, so that it does nothing but search.

The program is the one that was installed beside us, never one that a PATH or a repository offers. It reads no settings
of its own, runs no other program, follows no links, and matches with automata, whose time grows with the text alone.
It begins in the very directory that was looked at, also when that has become a link since. It never outlives its call.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import anyio

from bullpen.errors import ToolFailed
from bullpen.system import files
from bullpen.system.processes import Processes
from bullpen.system.spool import Beginning

ALWAYS = (
    "--no-config",
    "--color=never",
    "--engine=default",
    "--no-follow",
    "--no-pre",
    # An ignore file may be a link, and what is said of a wrong pattern repeats it.
    "--no-ignore-messages",
    "--no-search-zip",
    "--no-mmap",
    "--no-require-git",
    "--no-ignore-parent",
)

_PASSED = ("HOME", "XDG_CONFIG_HOME", "LANG", "LC_ALL")
"""With these it finds what the person always ignores."""


class Findings(NamedTuple):
    output: bytes
    problems: str
    """What it complained about; there may be findings all the same."""
    is_cut: bool
    """Whether there was more than the limit."""
    is_late: bool
    """Whether it took longer than it may."""


@functools.cache
def program() -> str:
    """Raises `ToolFailed` when it is not there."""
    places = (Path(sysconfig.get_path("scripts")), Path(sys.executable).parent)
    for place in places:
        if os.access(place / "rg", os.X_OK):
            return str(place / "rg")
    raise ToolFailed(f"ripgrep is missing beside {places[0]}; install Bullpen again, it comes with it")


async def run(
    processes: Processes,
    arguments: Sequence[str],
    *,
    directory: Path,
    env: Mapping[str, str],
    limit_bytes: int,
    timeout_s: float,
) -> Findings:
    """Search in a directory given by its real path. Raises `ToolFailed` when it cannot be started."""
    output = Beginning(limit_bytes)
    argv = (program(), *ALWAYS, *arguments)
    passed = {name: env[name] for name in _PASSED if name in env}
    try:
        fd = await anyio.to_thread.run_sync(_open, directory)
        try:
            process = await processes.start(argv, cwd=_named(fd, directory), env=passed, stdout=output)
        finally:
            os.close(fd)
    except OSError as exc:
        raise ToolFailed(f"cannot search {directory}: {exc.strerror or exc}") from exc
    try:
        with anyio.move_on_after(timeout_s) as scope:
            await _first_of(process.wait, output.full.wait)
    finally:
        if process.exit_code is None:
            with anyio.CancelScope(shield=True):
                await process.kill()
    return Findings(
        output.content, process.stderr.text().strip(), output.full.is_set(), scope.cancelled_caught
    )


def _open(directory: Path) -> int:
    with files.open_directory(directory) as fd:
        return os.dup(fd)


def _named(fd: int, directory: Path) -> Path:
    """The open directory, by a name that leads to it whatever becomes of its path; where there is none, the path."""
    name = Path(f"/proc/{os.getpid()}/fd/{fd}")
    return name if name.exists() else directory


async def _first_of(*waits: Callable[[], Awaitable[object]]) -> None:
    async with anyio.create_task_group() as tasks:

        async def until(wait: Callable[[], Awaitable[object]]) -> None:
            await wait()
            tasks.cancel_scope.cancel()

        for wait in waits:
            tasks.start_soon(until, wait)
