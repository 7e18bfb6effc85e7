"""The shell commands of one workspace, in the foreground or behind a turn's back.

Every command is a shell of its own; no state is kept from one to the next. A command becomes a *background
job* by `keep`: it is then listed under its id, belongs to the session whose turn started it, and outlives the
call. Finished jobs stay readable until JOBS_FINISHED newer ones have finished. What a command leaves behind
(`server &`) runs on and ends with the workspace at the latest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import anyio

from bullpen.errors import JobNotFound, ToolFailed
from bullpen.system import ripgrep
from bullpen.system.limits import USUAL_LIMITS, Limits
from bullpen.system.processes import Process, Processes, shell, shell_argv
from bullpen.system.ripgrep import Findings
from bullpen.system.sandbox import Sandbox
from bullpen.system.spool import Tape

JOBS_RUNNING = 50
"""More running background jobs than this is a loop, not a plan."""

JOBS_FINISHED = 50


class Owner(NamedTuple):
    """Whose turn started a command, and how that turn was allowed to act: what the command's end sets off is allowed the
    same."""

    session: str = ""
    permissions: str = "ask"
    interactive: bool = True
    author: str = ""
    client: str = ""


NOBODY = Owner()


class ShellJob:
    """One shell command."""

    def __init__(
        self,
        job_id: str,
        command: str,
        description: str,
        working_dir: str,
        process: Process,
        tape: Tape,
        owner: Owner = NOBODY,
        *,
        is_walled: bool = False,
    ) -> None:
        self.id = job_id
        self.command = command
        self.description = description
        self.working_dir = working_dir
        self.owner = owner
        self.is_walled = is_walled
        """Whether it runs in a sandbox."""
        self.tape = tape
        """Both streams together, as they came."""
        self.started_at = time.time()
        self.ended_at = 0.0
        self.wakes = False
        """Whether the agent is still to be told of its end."""
        self._process = process

    @property
    def done(self) -> bool:
        return self._process.exit_code is not None

    @property
    def gone(self) -> bool:
        """Whether nothing of the command is left, not even in the background."""
        return self._process.gone

    @property
    def exit_code(self) -> int | None:
        return self._process.exit_code

    @property
    def broke_limit(self) -> str:
        """The limit that it was ended for, in words."""
        return self._process.broke_limit

    @property
    def last_directory(self) -> str:
        """Where the shell was at its end; where it began when that is not known."""
        return self._process.last_directory or self.working_dir

    def output(self) -> tuple[str, str]:
        return self._process.stdout.text(), self._process.stderr.text()

    async def wait(self) -> None:
        await self._process.wait()

    async def kill(self) -> None:
        """End the whole process tree, also what the command left behind: TERM, then KILL after 2 s."""
        await self._process.kill()


def _ignore(job: ShellJob) -> None:
    return


class Jobs:
    """Starts commands with the environment, the limits and the walls as they are then. `close` ends them all and takes no new ones. `on_change` hears
    of every background job that begins, ends or is forgotten."""

    def __init__(
        self,
        env: Mapping[str, str],
        processes: Processes,
        *,
        limits: Callable[[], Limits] = lambda: USUAL_LIMITS,
        sandbox: Sandbox | None = None,
        on_change: Callable[[ShellJob], None] = _ignore,
    ) -> None:
        self._env = env
        self._processes = processes
        self._limits = limits
        self._sandbox = sandbox or Sandbox(Path("/"))
        self._on_change = on_change
        self._count = 0
        self._started: set[ShellJob] = set()
        """Of these something may still run."""
        self._kept: dict[str, ShellJob] = {}
        self._closed = False

    def of(self, owner: Owner) -> OwnJobs:
        return OwnJobs(self, owner)

    async def start(
        self,
        command: str,
        *,
        cwd: Path,
        description: str,
        owner: Owner = NOBODY,
        time_s: float = 0,
        is_persons: bool = False,
    ) -> ShellJob:
        """Raises `ToolFailed` when the command cannot be started at all. `time_s` is how long it may take, 0 as long as the
        configuration allows. What a person types runs without walls."""
        if self._closed:
            raise ToolFailed("the workspace is closing; no more commands are started")
        self._count += 1
        job_id = f"{self._count:03X}"
        tape = Tape()
        limits = self._limits()
        if time_s:
            limits = limits._replace(time_s=min(time_s, limits.time_s or time_s))
        # PWD keeps the name by which the workspace was opened; a shell drops it where it is not true.
        env = {**self._env, "PWD": str(cwd)}
        argv, walls = shell_argv(command), None
        if not is_persons:
            argv, env, walls = await self._sandbox.wall(argv, env, cwd)
        try:
            process = await self._processes.start(
                argv,
                cwd=cwd,
                env=env,
                tape=tape,
                tells_place=sys.platform == "linux" and shell().endswith("/bash"),
                limits=limits,
                walls=walls,
            )
        except OSError as exc:
            raise ToolFailed(f"the command could not be started in {cwd}: {exc.strerror or exc}") from exc
        if walls is not None and not process.gone:
            self._sandbox.enter()
            process.on_gone = self._sandbox.leave
        job = ShellJob(
            job_id, command, description, str(cwd), process, tape, owner, is_walled=walls is not None
        )
        process.on_exit = lambda: self._ended(job)
        if job.done:
            self._ended(job)
        self._started = {each for each in self._started if not each.gone} | {job}
        return job

    async def search(
        self, arguments: Sequence[str], *, directory: Path, limit_bytes: int, timeout_s: float
    ) -> Findings:
        """Run ripgrep in a directory given by its real path. Raises `ToolFailed` when it cannot be started."""
        if self._closed:
            raise ToolFailed("the workspace is closing; nothing more is searched")
        return await ripgrep.run(
            self._processes,
            arguments,
            directory=directory,
            env=self._env,
            limit_bytes=limit_bytes,
            timeout_s=timeout_s,
        )

    def get(self, job_id: str) -> ShellJob | None:
        return self._kept.get(job_id.strip().upper())

    def find(self, job_id: str) -> ShellJob:
        """Raises `JobNotFound`."""
        job = self.get(job_id)
        if job is None:
            raise JobNotFound(job_id)
        return job

    def all(self, session: str = "") -> list[ShellJob]:
        """The background jobs, oldest first; of one session when one is named."""
        return [job for job in self._kept.values() if session in ("", job.owner.session)]

    def keep(self, job: ShellJob) -> None:
        """List a command as a background job. Raises `ToolFailed` when too many are running."""
        if self.running() >= JOBS_RUNNING:
            raise ToolFailed(
                f"{JOBS_RUNNING} background jobs are running, and no more are allowed; end one with job_kill first"
            )
        self._kept[job.id] = job
        self._on_change(job)
        finished = [each.id for each in self._kept.values() if each.done]
        for job_id in finished[:-JOBS_FINISHED]:
            self.forget(job_id)

    def forget(self, job_id: str) -> None:
        job = self._kept.pop(job_id, None)
        if job is not None:
            self._on_change(job)

    def running(self) -> int:
        """How many background jobs are unfinished."""
        return sum(not job.done for job in self._kept.values())

    async def close(self) -> None:
        """End all commands and what they left behind; bounded, and not to be cancelled half-way."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for job in self._started:
                    tasks.start_soon(job.kill)
            await self._sandbox.close()

    def _ended(self, job: ShellJob) -> None:
        job.ended_at = time.time()
        if job.id in self._kept:
            self._on_change(job)


class OwnJobs:
    """The commands of a workspace as one turn may use them: those of its own session."""

    def __init__(self, jobs: Jobs, owner: Owner) -> None:
        self._jobs = jobs
        self._owner = owner
        self.search = jobs.search
        self.keep = jobs.keep
        self.forget = jobs.forget

    async def start(self, command: str, *, cwd: Path, description: str, time_s: float = 0) -> ShellJob:
        return await self._jobs.start(
            command, cwd=cwd, description=description, owner=self._owner, time_s=time_s
        )

    def get(self, job_id: str) -> ShellJob | None:
        job = self._jobs.get(job_id)
        return job if job is not None and job.owner.session == self._owner.session else None

    def all(self) -> list[ShellJob]:
        return self._jobs.all(self._owner.session)
