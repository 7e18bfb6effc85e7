"""End a background job."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.job_output import own_job


class JobKillParams(Struct, frozen=True):
    shell_id: Annotated[str, Meta(description="The job's id, as bash gave it.")]


@tool(
    "job_kill",
    "End a background job and every process it started. Its output is gone afterwards: read it with job_output first "
    "if it matters.",
)
async def job_kill(params: JobKillParams, ctx: ToolContext) -> Outcome:
    job = own_job(params.shell_id, ctx)
    job.wakes = False
    await job.kill()
    ctx.jobs.forget(job.id)
    return Outcome(
        content=f"Job {job.id} has been ended.",
        metadata={"shell_id": job.id, "command": job.command, "description": job.description},
    )
