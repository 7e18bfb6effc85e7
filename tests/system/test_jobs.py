"""The shell commands of one workspace."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import Figure

from bullpen.errors import ToolFailed
from bullpen.system.jobs import JOBS_FINISHED, JOBS_RUNNING, Jobs
from bullpen.system.processes import Processes

MIB = 1 << 20


@pytest.fixture
async def jobs(processes: Processes) -> AsyncIterator[Jobs]:
    jobs = Jobs({"PATH": os.environ["PATH"], "MARK": "42"}, processes)
    yield jobs
    await jobs.close()


async def test_a_job_has_a_number_and_an_environment(jobs: Jobs, tmp_path: Path) -> None:
    """Three upper-case hex digits, counted from one; only the variables it was given."""
    for _ in range(9):
        await jobs.start("true", cwd=tmp_path, description="")
    job = await jobs.start("echo $MARK $PWD; echo no >&2", cwd=tmp_path, description="look")
    await job.wait()
    assert (job.id, job.description, job.working_dir) == ("00A", "look", str(tmp_path))
    assert (job.done, job.exit_code, job.output()) == (True, 0, (f"42 {tmp_path}\n", "no\n"))


async def test_a_directory_that_is_linked_keeps_its_name(jobs: Jobs, tmp_path: Path) -> None:
    """A shell says the path by which the workspace was opened."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    job = await jobs.start("pwd", cwd=tmp_path / "link", description="")
    await job.wait()
    assert job.output()[0] == f"{tmp_path / 'link'}\n"


async def test_a_command_that_begins_with_a_dash_is_a_command(jobs: Jobs, tmp_path: Path) -> None:
    """It must not become an option of the shell."""
    job = await jobs.start("-x", cwd=tmp_path, description="")
    await job.wait()
    assert job.exit_code == 127


async def test_only_kept_jobs_are_listed(jobs: Jobs, tmp_path: Path) -> None:
    """A command in the foreground is nobody's job; a finished one does not count as running."""
    job = await jobs.start("exec sleep 600", cwd=tmp_path, description="")
    assert (jobs.get(job.id), jobs.running()) == (None, 0)
    jobs.keep(job)
    assert (jobs.get(job.id.lower()), jobs.running()) == (job, 1)
    await job.kill()
    assert (jobs.get(job.id), jobs.running()) == (job, 0)
    jobs.forget(job.id)
    assert jobs.get(job.id) is None


async def test_running_jobs_are_limited(jobs: Jobs, tmp_path: Path) -> None:
    """Finished ones do not count; the one too many is refused with words that help."""
    for _ in range(JOBS_RUNNING):
        jobs.keep(await jobs.start("exec sleep 600", cwd=tmp_path, description=""))
    extra = await jobs.start("exec sleep 600", cwd=tmp_path, description="")
    with pytest.raises(ToolFailed, match="job_kill"):
        jobs.keep(extra)
    first = jobs.get("001")
    assert first
    await first.kill()
    jobs.keep(extra)


async def test_old_finished_jobs_are_forgotten(jobs: Jobs, tmp_path: Path) -> None:
    """The list cannot grow for ever."""
    for _ in range(JOBS_FINISHED + 2):
        job = await jobs.start("true", cwd=tmp_path, description="")
        await job.wait()
        jobs.keep(job)
    assert (jobs.get("001"), jobs.get("002"), jobs.get("003") is not None) == (None, None, True)


ENDLESS = {
    "lines": "yes",
    "no newline": "yes | tr -d '\\n'",
    "NULs": "cat /dev/zero",
    "not text": "cat /dev/urandom",
    "long lines": "yes $(head -c 100000 /dev/zero | tr '\\0' x)",
    "errors": "yes >&2",
    "one byte at a time": "python3 -uc 'import os\nwhile True: os.write(1, b\"x\")'",
}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("style", ENDLESS)
async def test_endless_output_costs_a_fixed_amount(
    jobs: Jobs, tmp_path: Path, style: str, figure: Figure
) -> None:
    """R-25: on disk, in memory, and for the model; and the loop goes on turning."""
    before = resident_bytes()
    job = await jobs.start(ENDLESS[style], cwd=tmp_path, description="")
    enough = 200_000 if style == "one byte at a time" else 18 * MIB
    while job.tape.total < enough:
        await job.tape.grown(job.tape.total)
    grown, spooled = resident_bytes() - before, spool_bytes()
    await job.kill()
    assert max(spooled, default=0) <= 16 * MIB
    assert grown <= 16 * MIB
    assert all(len(text) <= 1_100_000 for text in job.output())
    figure(
        "R-25",
        "ATTK",
        f"kinds of endless output: 1, spool ≤ {max(spooled, default=0) / MIB:.1f} MiB, memory ≤ {max(grown, 0) / MIB:.1f} MiB",
    )


def resident_bytes() -> int:
    """How much memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def spool_bytes() -> list[int]:
    """What the files without a name take that this process has open."""
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if "(deleted)" in os.readlink(fd):
                found.append(os.stat(fd).st_blocks * 512)
    return found


async def test_close_ends_everything(jobs: Jobs, tmp_path: Path) -> None:
    """Background jobs, foreground commands and what finished ones left behind."""
    kept = await jobs.start("exec sleep 600", cwd=tmp_path, description="")
    jobs.keep(kept)
    left = await jobs.start("setsid sleep 600 &", cwd=tmp_path, description="")
    await left.wait()
    await jobs.close()
    assert (kept.done, kept.gone, left.gone) == (True, True, True)
    with pytest.raises(ToolFailed, match="closing"):
        await jobs.start("true", cwd=tmp_path, description="")


async def test_a_command_that_cannot_start_is_a_result(jobs: Jobs, tmp_path: Path) -> None:
    """The model reads why."""
    with pytest.raises(ToolFailed, match="No such file or directory"):
        await jobs.start("true", cwd=tmp_path / "missing", description="")
