"""Read what a background job has printed."""

from __future__ import annotations

from typing import Annotated

import anyio
from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.tools.base import Job, Outcome, ToolContext, tool
from bullpen.tools.excerpt import MAX_CHARACTERS, report_of, state_of

MAX_WAIT_S = 300
"""A job that never ends must not hold its turn for ever; the model may ask again."""


class JobOutputParams(Struct, frozen=True):
    shell_id: Annotated[str, Meta(description="The job's id, as bash gave it.")]
    wait: Annotated[bool, Meta(description="Wait until the job has ended, for up to `timeout`.")] = False
    timeout: Annotated[int, Meta(description="Seconds to wait at most. Default and most: 300.", ge=0)] = (
        MAX_WAIT_S
    )
    offset: Annotated[int | None, Meta(description="Read on from this byte, as the last call gave it.")] = (
        None
    )
    tail: Annotated[int | None, Meta(description="Only the last so many lines.")] = None


@tool(
    "job_output",
    "Read what a background job has printed so far, whether it still runs, and its exit code when it has ended. "
    "Without `offset` or `tail`: beginning and end of each stream. With `offset` both streams as they came, piece by piece; "
    "the result says where to go on. With `wait` the call returns when the job ends, or after `timeout` seconds.",
    effects=False,
)
async def job_output(params: JobOutputParams, ctx: ToolContext) -> Outcome:
    job = own_job(params.shell_id, ctx)
    # Whoever is looking need not be told.
    wakes, job.wakes = job.wakes, False
    try:
        if params.wait:
            with anyio.move_on_after(min(params.timeout, MAX_WAIT_S)):
                await job.wait()
    finally:
        job.wakes = wakes and not job.done
    status = "completed" if job.done else "running"
    output, is_cut = _part(job, params)
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


def own_job(job_id: str, ctx: ToolContext) -> Job:
    """Raises `ToolFailed` for a job that is not there, or is another session's."""
    job = ctx.jobs.get(job_id)
    if job is None:
        raise ToolFailed(
            f"no background job of this session has the id {job_id!r}; jobs end with the workspace and the server, and "
            "job_list shows those that there are"
        )
    return job


def _part(job: Job, params: JobOutputParams) -> tuple[str, bool]:
    if params.offset is not None:
        piece = job.tape.read(params.offset, MAX_CHARACTERS)
        skipped = piece.offset - min(params.offset, job.tape.total)
        lost = f"[{skipped} bytes before this are not kept any more]\n" if skipped else ""
        more = piece.next_offset < job.tape.total
        end = f"[{state_of(job)}; next offset {piece.next_offset} of {job.tape.total}]"
        return f"{lost}{piece.text}\n{end}", more
    if params.tail is not None and params.tail > 0:
        piece = job.tape.tail(MAX_CHARACTERS)
        lines = piece.text.rstrip("\n").split("\n")
        shown = "\n".join(lines[-params.tail :])
        return f"{shown}\n[{state_of(job)}]", piece.offset > 0 or len(lines) > params.tail
    return report_of(job)
