"""Background jobs: shell commands that run behind the turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from bullpen.schema.jobs import Job, JobOutput
from bullpen.server.routing import delete, get

Offset = Annotated[int, Meta(ge=0)]
Wait = Annotated[int, Meta(ge=0, le=30)]
"""Seconds."""

if TYPE_CHECKING:
    from bullpen.workspace.workspace import Workspace


@get("/v1/workspaces/{workspace_id}/jobs", access="watch")
async def list_jobs(workspace: Workspace, session_id: str = "") -> list[Job]:
    """List the background jobs, running and lately ended; of one session when it is named."""
    return workspace.commands.list_jobs(session_id)


@get("/v1/workspaces/{workspace_id}/jobs/{job_id}/output", access="watch")
async def read_job(workspace: Workspace, job_id: str, offset: Offset = 0, wait: Wait = 0) -> JobOutput:
    """Read what a job printed, from an offset on. With `wait` the answer comes when there is more, at the latest after so
    many seconds; asking again from `next_offset` follows the job."""
    return await workspace.commands.job_output(job_id, offset, wait)


@delete("/v1/workspaces/{workspace_id}/jobs/{job_id}", access="prompt")
async def kill_job(workspace: Workspace, job_id: str) -> Job:
    """End a job and every process that it started; answers when all are gone."""
    return await workspace.commands.kill_job(job_id)
