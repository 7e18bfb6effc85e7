"""The shell commands of a workspace: their limits and walls as the configuration has them, and background jobs for clients
and for the agents that started them.

Jobs live as long as the server does, hence their events are not kept: whoever comes back asks for the list.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from bullpen.config.shape import Options
from bullpen.config.spans import seconds
from bullpen.errors import BullpenError
from bullpen.schema.events import Action
from bullpen.schema.jobs import Job, JobOutput, SandboxState
from bullpen.schema.wire import Wire
from bullpen.system.jobs import Jobs, Owner, ShellJob
from bullpen.system.limits import Limits
from bullpen.system.processes import Processes
from bullpen.system.sandbox import Asked, Sandbox

OUTPUT_BYTES = 256 * 1024
"""The most that one answer holds of a job's output."""

TOLD_CHARACTERS = 200
"""How much of a command stands in the notice of its end."""

log = logging.getLogger("bullpen.workspace")


class Commands:
    """`announce` shows everybody something that is true now; `tell` gives a session a prompt."""

    def __init__(
        self,
        root: Path,
        env: Mapping[str, str],
        processes: Processes,
        *,
        own_places: Iterable[Path],
        options: Callable[[], Options],
        announce: Callable[[Wire, Action], None],
        tell: Callable[[Owner, str], Awaitable[None]],
        tasks: TaskGroup,
    ) -> None:
        self._options = options
        self._announce = announce
        self._tell = tell
        self._tasks = tasks
        self._telling = 0
        """Ended jobs of which an agent is being told."""
        self._sandbox = Sandbox(root, own_places)
        self.jobs = Jobs(
            env, processes, limits=self._limits, sandbox=self._sandbox, on_change=self._job_changed
        )

    async def follow(self, env: Mapping[str, str]) -> bool:
        """Take up the configuration, with the environment of the person whose home it is; whether the sandbox is another
        one now."""
        said, before = self._options().sandbox, self._sandbox.state
        await self._sandbox.follow(Asked(said.mode, said.network, said.writable, said.hidden), env)
        return self._sandbox.state != before

    @property
    def sandbox(self) -> SandboxState:
        return SandboxState(**self._sandbox.state._asdict())

    @property
    def has_work(self) -> bool:
        return bool(self.jobs.running() or self._telling)

    def list_jobs(self, session_id: str = "") -> list[Job]:
        return [_shown(job) for job in self.jobs.all(session_id)]

    async def job_output(self, job_id: str, offset: int, wait_s: float) -> JobOutput:
        """What the job printed from the offset on; waits for more up to so long. Raises `JobNotFound`."""
        job = self.jobs.find(job_id)
        with anyio.move_on_after(wait_s):
            await job.tape.grown(offset)
        piece = job.tape.read(offset, OUTPUT_BYTES)
        return JobOutput(**piece._asdict(), total=job.tape.total, running=not job.done)

    async def kill_job(self, job_id: str) -> Job:
        """End the job with all that it started; its agent is not woken for that. Raises `JobNotFound`."""
        job = self.jobs.find(job_id)
        job.wakes = False
        await job.kill()
        return _shown(job)

    def hush(self, session_id: str) -> None:
        """No job of the session wakes its agent any more: somebody has stopped it."""
        for job in self.jobs.all(session_id):
            job.wakes = False

    async def end_session(self, session_id: str) -> None:
        """End and forget the jobs of a session that is no more."""
        self.hush(session_id)
        async with anyio.create_task_group() as tasks:
            for job in self.jobs.all(session_id):
                tasks.start_soon(job.kill)
        for job in self.jobs.all(session_id):
            self.jobs.forget(job.id)

    def _limits(self) -> Limits:
        said = self._options().command_limits
        return Limits(
            processes=said.processes,
            memory_bytes=said.memory_mb << 20,
            open_files=said.open_files,
            file_bytes=said.file_mb << 20,
            cpu_s=seconds(said.cpu),
            time_s=seconds(said.time),
        )

    def _job_changed(self, job: ShellJob) -> None:
        """Show everybody, and tell the agent of an end that it has not seen."""
        if self.jobs.get(job.id) is not job:
            self._announce(_shown(job), "deleted")
            return
        self._announce(_shown(job), "updated" if job.done else "created")
        if job.done and job.wakes:
            job.wakes = False
            self._telling += 1
            self._tasks.start_soon(self._tell_agent, job)

    async def _tell_agent(self, job: ShellJob) -> None:
        what = job.description or " ".join(job.command.split())[:TOLD_CHARACTERS]
        limit = f" It was ended because it {job.broke_limit}." if job.broke_limit else ""
        notice = (
            f"[Background job {job.id} ({what}) has ended with exit code {job.exit_code}.{limit} "
            "job_output shows what it printed.]"
        )
        try:
            await self._tell(job.owner, notice)
        except BullpenError as exc:
            log.warning("the end of job %s could not be told to its session: %s", job.id, exc)
        finally:
            self._telling -= 1


def _shown(job: ShellJob) -> Job:
    return Job(
        id=job.id,
        session_id=job.owner.session,
        command=job.command,
        description=job.description,
        working_dir=job.working_dir,
        running=not job.done,
        exit_code=job.exit_code or 0,
        limit=job.broke_limit,
        output_bytes=job.tape.total,
        started_at=job.started_at,
        ended_at=job.ended_at,
    )
