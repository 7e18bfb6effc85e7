"""Read what a background job has printed."""

from __future__ import annotations

from typing import Annotated

import anyio
from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.excerpt import report_of

MAX_WAIT_S = 300.0
"""A job that never ends must not hold its turn for ever; the model may ask again."""


class JobOutputParams(Struct, frozen=True):
    shell_id: Annotated[str, Meta(description="The job's id, as bash gave it.")]
    wait: Annotated[bool, Meta(description="Wait until the job has ended, for up to five minutes.")] = False


@tool(
    "job_output",
    "Read what a background job has printed so far, whether it still runs, and its exit code when it has ended. "
    "With `wait` the call returns when the job ends, or after five minutes.",
    effects=False,
)
async def job_output(params: JobOutputParams, ctx: ToolContext) -> Outcome:
    job = ctx.jobs.get(params.shell_id)
    if job is None:
        raise ToolFailed(f"no background job has the id {params.shell_id!r}")
    if params.wait:
        with anyio.move_on_after(MAX_WAIT_S):
            await job.wait()
    status = "completed" if job.done else "running"
    output, is_cut = report_of(job)
    return Outcome(
        content=f"Status: {status}\n\n{output or 'no output'}",
        metadata={
            "shell_id": job.id,
            "command": job.command,
            "description": job.description,
            "done": job.done,
            "working_directory": job.working_dir,
        },
        is_cut=is_cut,
    )
