"""List background jobs."""

from __future__ import annotations

import time

from msgspec import Struct

from bullpen.tools.base import Job, Outcome, ToolContext, tool
from bullpen.tools.excerpt import state_of

COMMAND_CHARACTERS = 200


class JobListParams(Struct, frozen=True):
    """Nothing has to be said."""


@tool(
    "job_list",
    "List the background jobs of this session: id, state, age, how much they have printed, command.",
    effects=False,
)
async def job_list(params: JobListParams, ctx: ToolContext) -> Outcome:
    jobs = ctx.jobs.all()
    return Outcome(
        content="\n".join(_line(job) for job in jobs) or "There are no background jobs.",
        metadata={"jobs": [{"shell_id": job.id, "command": job.command, "done": job.done} for job in jobs]},
    )


def _line(job: Job) -> str:
    command = " ".join(job.command.split())
    shown = command if len(command) <= COMMAND_CHARACTERS else f"{command[:COMMAND_CHARACTERS]} …"
    age = int(time.time() - job.started_at)
    return f"{job.id}  {state_of(job)}, started {age} s ago, {job.tape.total} bytes: {shown}"
