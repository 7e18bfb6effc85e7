"""Commands that take too much are ended, and say why. All that is started here is bounded, see `hogs.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import Figure
from tests.system.hogs import MEMORY, PROCESSES

from bullpen.system.cgroups import Groups, Home
from bullpen.system.limits import Limits, describe
from bullpen.system.processes import Process, Processes, shell_argv

ENV = {"PATH": os.environ["PATH"]}
FEW = Limits(processes=16)
LITTLE = Limits(memory_bytes=128 << 20)


@pytest.fixture
def anyio_backend() -> str:
    """The loop makes no difference here, and there is much to try."""
    return "asyncio"


@pytest.fixture(params=["with groups", "without groups"])
async def processes(request: pytest.FixtureRequest) -> AsyncIterator[Processes]:
    """Both ways to hold limits. Where no group can be made, the two are one."""
    async with Processes(use_groups=request.param == "with groups") as processes:
        yield processes


async def run(processes: Processes, command: str, limits: Limits, cwd: Path) -> Process:
    """The command at its end, with nothing of it left."""
    process = await processes.start(
        shell_argv(command), cwd=cwd, env={**ENV, "MARK": str(cwd)}, limits=limits
    )
    await process.wait()
    await process.kill()
    assert left_of(cwd) == []
    return process


def left_of(cwd: Path) -> list[str]:
    """The processes of a command: all of them have its mark."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                environ = (process / "environ").read_bytes()
            except OSError:
                continue
            if f"MARK={cwd}".encode() in environ.split(b"\0"):
                found.append(process.name)
    return found


@pytest.mark.parametrize("style", PROCESSES)
async def test_too_many_processes_are_ended(
    processes: Processes, tmp_path: Path, style: str, figure: Figure
) -> None:
    """However they are started, together with all the others."""
    process = await run(processes, PROCESSES[style], FEW, tmp_path)
    assert process.broke_limit == "had more than 16 processes (options.command_limits.processes)"
    figure("R-24", "ATTK", "bounded fork bombs over their limit: 1, ended, 0 processes left")


@pytest.mark.parametrize("style", MEMORY)
async def test_too_much_memory_is_ended(
    processes: Processes, tmp_path: Path, style: str, figure: Figure
) -> None:
    """Of all processes together, and what they share counts once."""
    process = await run(processes, MEMORY[style], LITTLE, tmp_path)
    told = process.stdout.text() + process.stderr.text()
    refused = "MemoryError" in told or "Cannot allocate memory" in told
    assert (
        refused
        or process.broke_limit == "took more than 128 MiB of memory (options.command_limits.memory_mb)"
    )
    figure("R-24", "ATTK", "memory hogs over their limit: 1, ended or refused, 0 processes left")


async def test_pages_that_are_shared_count_once(processes: Processes, tmp_path: Path) -> None:
    """A program that forks has not taken its memory twice."""
    program = "import os, time\nx = b'x' * (60 << 20)\nfor i in range(4): os.fork() or (time.sleep(1), os._exit(0))\nos.wait()"
    process = await run(processes, f'python3 -c "{program}"', LITTLE, tmp_path)
    assert (process.exit_code, process.broke_limit) == (0, "")


async def test_a_file_too_large_is_not_written(processes: Processes, tmp_path: Path) -> None:
    """The signal that says so is told in words."""
    limits = Limits(file_bytes=4 << 20)
    process = await run(processes, "exec head -c 32M /dev/zero > file", limits, tmp_path)
    assert process.broke_limit == "wrote a file larger than 4 MiB (options.command_limits.file_mb)"
    assert (tmp_path / "file").stat().st_size == 4 << 20


async def test_too_many_files_are_refused(processes: Processes, tmp_path: Path) -> None:
    """The program hears of it and can go on."""
    program = "x = []\ntry:\n  while len(x) < 1000: x.append(open('/dev/null'))\nexcept OSError as e: print(e.strerror, len(x) < 64)"
    process = await run(processes, f'python3 -c "{program}"', Limits(open_files=64), tmp_path)
    assert process.stdout.text() == "Too many open files True\n"


async def test_a_processor_is_not_held_for_ever(processes: Processes, tmp_path: Path) -> None:
    process = await run(processes, "while :; do :; done", Limits(cpu_s=1), tmp_path)
    assert process.broke_limit == "took more than 1 s of a processor (options.command_limits.cpu)"


async def test_time_is_limited(processes: Processes, tmp_path: Path) -> None:
    """Also for what has left the command behind; what it printed stays."""
    process = await run(
        processes, "echo begun; setsid sleep 20 & exec sleep 20", Limits(time_s=0.3), tmp_path
    )
    assert (process.broke_limit, process.stdout.text()) == ("took longer than 0.3 s", "begun\n")


async def test_ordinary_work_is_within_limits(processes: Processes, tmp_path: Path) -> None:
    """And a command that fails by itself has broken none."""
    command = "for i in 1 2 3 4 5; do sleep 0.2 & done; wait; ulimit -n; ulimit -c; nice; exit 3"
    process = await run(processes, command, Limits(16, 1 << 30, 100, 1 << 30, 100, 100), tmp_path)
    assert (process.exit_code, process.broke_limit) == (3, "")
    files, core, niceness = process.stdout.text().split()
    assert (files, core, int(niceness) >= 5) == ("100", "0", True)


def test_other_people_have_a_limit_of_the_kernel_as_well() -> None:
    """Which does not bind root."""
    program = (
        "import os, resource\nfrom bullpen.system.limits import Limits, hold\n"
        "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "hold(Limits(processes=16), 5)\nprint(resource.getrlimit(resource.RLIMIT_NPROC)[0])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 64 < int(told.stdout) < 1_000_000


def test_every_limit_has_words() -> None:
    limits = Limits(1, 2 << 20, 3, 4 << 20, 5, 6)
    assert [
        describe(over, limits).split(" (")[0] for over in ("processes", "memory", "file", "cpu", "time")
    ] == [
        "had more than 1 processes",
        "took more than 2 MiB of memory",
        "wrote a file larger than 4 MiB",
        "took more than 5 s of a processor",
        "took longer than 6 s",
    ]


# Control groups of the second version, on a file system that is played: what is written, and when nothing is.


def world(tmp_path: Path, *, procs: str, controllers: str = "cpu memory pids", enabled: str = "") -> Path:
    """A machine with one tree of control groups, in which we are in `unit`."""
    home = tmp_path / "fs" / "unit"
    home.mkdir(parents=True)
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/unit\n")
    (tmp_path / "proc/self/mountinfo").write_text(f"30 29 0:26 / {tmp_path}/fs rw - cgroup2 cgroup2 rw\n")
    (home / "cgroup.procs").write_text(procs)
    (home / "cgroup.controllers").write_text(controllers)
    (home / "cgroup.subtree_control").write_text(enabled)
    return home


def found(tmp_path: Path, server: int) -> list[Home]:
    return Groups.find(server, processes=str(tmp_path / "proc"))._homes


def test_a_server_that_is_alone_divides_its_group(tmp_path: Path) -> None:
    """It moves to a leaf, has the rest counted, and the next launcher finds it so."""
    home = world(tmp_path, procs=f"{os.getppid()}\n{os.getpid()}\n")
    assert found(tmp_path, os.getppid()) == [Home(str(home), 2, ("pids", "memory"))]
    assert (home / "bullpen-server/cgroup.procs").read_text() in (str(os.getppid()), str(os.getpid()))
    assert (home / "cgroup.subtree_control").read_text() == "+pids +memory"
    (home / "cgroup.subtree_control").write_text("memory pids")
    (home / "cgroup.procs").write_text("")
    (tmp_path / "proc/self/cgroup").write_text("0::/unit/bullpen-server\n")
    assert found(tmp_path, os.getppid()) == [Home(str(home), 2, ("pids", "memory"))]


def test_a_group_with_others_in_it_is_left_alone(tmp_path: Path) -> None:
    home = world(tmp_path, procs=f"{os.getpid()}\n1\n")
    assert found(tmp_path, os.getpid()) == []
    assert sorted(p.name for p in home.iterdir()) == [
        "cgroup.controllers",
        "cgroup.procs",
        "cgroup.subtree_control",
    ]


def test_a_group_is_made_with_its_limits_and_says_which_was_held(tmp_path: Path) -> None:
    home = world(tmp_path, procs="", enabled="memory pids")
    groups = Groups.find(77, processes=str(tmp_path / "proc"))
    group = groups.make("1-2", processes=5, memory_bytes=6)
    made = home / "bullpen-1-2"
    assert [(made / name).read_text() for name in ("pids.max", "memory.max")] == ["5", "6"]
    group.take([4321])
    assert (made / "cgroup.procs").read_text() == "4321"
    assert group.over() == ""
    (made / "memory.events").write_text("low 0\nmax 9\noom_kill 1\n")
    assert group.over() == "memory"
    (made / "pids.events").write_text("max 1\n")
    assert group.over() == "processes"


def test_no_groups_are_no_error(tmp_path: Path) -> None:
    group = Groups.find(77, processes=str(tmp_path)).make("1-2", processes=5, memory_bytes=6)
    group.take([os.getpid()])
    group.remove()
    assert group.over() == ""
