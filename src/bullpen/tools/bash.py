"""Run a shell command, in the foreground or as a background job."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Any

import anyio
from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.system.following import follow
from bullpen.system.shell_safety import is_known_read
from bullpen.system.spool import Piece
from bullpen.tools.base import Job, Outcome, Reach, ToolContext, tool
from bullpen.tools.excerpt import report_of

INSTANT_S = 1.0
"""A background command that fails, mostly does so at once; waiting this long catches it."""

DEFAULT_PATIENCE_S = 60
MAX_PATIENCE_S = 600

NO_OUTPUT = "no output"

DESCRIPTION = """\
Run a command with bash in the workspace and return what it prints.

Each call is a fresh shell: directory changes, variables and functions do not carry over. Set `working_dir` instead of \
starting with `cd`. There is no standard input and no terminal, pagers are `cat` and editors fail, so pass flags that keep \
programs from asking.

A command still running after `auto_background_after` seconds becomes a background job; its id is in the result. Start \
servers and watchers with `run_in_background`, read them with `job_output`, end them with `job_kill`. Do not use `&` for this. \
You are prompted when a background job has ended, so there is no need to wait for it or to ask again and again; `wake: false` \
turns that off. With `timeout` the command and everything it started is ended after so many seconds.

Standard output comes first, then standard error, then the exit code if it is not 0. Long output is cut in the middle. To \
read, list or write files prefer the tools made for that. Commands other than plain reads are shown to the user for \
approval: keep each to one purpose, and say that purpose in `description`."""


class BashParams(Struct, frozen=True):
    description: Annotated[str, Meta(description="What the command is for, in a few words.")]
    command: Annotated[str, Meta(description="The command or script.")]
    working_dir: Annotated[str, Meta(description="Where to run it. Default: the workspace.")] = ""
    run_in_background: Annotated[bool, Meta(description="Return at once and let it run on.")] = False
    auto_background_after: Annotated[
        int, Meta(description="Seconds to wait before it becomes a background job. Default 60, at most 600.")
    ] = DEFAULT_PATIENCE_S
    timeout: Annotated[
        int, Meta(description="Seconds after which it is ended, in the background too. Default: never.", ge=0)
    ] = 0
    wake: Annotated[bool, Meta(description="Prompt you when it ends as a background job. Default true.")] = (
        True
    )


@tool("bash", DESCRIPTION)
async def bash(params: BashParams, ctx: ToolContext) -> Outcome:
    if not params.command.strip():
        raise ToolFailed("the command is empty")
    directory = ctx.resolve(params.working_dir) if params.working_dir else ctx.root
    if not await anyio.to_thread.run_sync(os.path.isdir, directory):
        raise ToolFailed(f"working_dir is not a directory: {directory}")
    is_read = await anyio.to_thread.run_sync(is_known_read, params.command, directory, ctx.root)
    await ctx.permit(
        "execute",
        description=f"Execute command: {params.command}",
        params=_shown(params, directory),
        path=directory,
        reach=Reach(command=params.command, paths=(directory,), is_read=is_read),
    )
    started_at = time.time()
    job = await ctx.jobs.start(
        params.command, cwd=directory, description=params.description, time_s=params.timeout
    )
    try:
        is_background = await _wait(job, params, ctx)
    except BaseException:
        # The call is given up: a cancel, or no room for another job. Nothing of the command may stay.
        with anyio.CancelScope(shield=True):
            await job.kill()
        ctx.jobs.forget(job.id)
        raise
    return _outcome(job, params, started_at, is_background=is_background)


def _shown(params: BashParams, directory: Path) -> dict[str, Any]:
    return {
        "description": params.description,
        "command": params.command,
        "working_dir": str(directory),
        "run_in_background": params.run_in_background,
        "auto_background_after": params.auto_background_after,
    }


async def _wait(job: Job, params: BashParams, ctx: ToolContext) -> bool:
    """Whether the command runs on behind our back."""
    patience_s = INSTANT_S if params.run_in_background else min(params.auto_background_after, MAX_PATIENCE_S)
    if params.run_in_background:
        ctx.jobs.keep(job)
    with anyio.move_on_after(patience_s if patience_s > 0 else DEFAULT_PATIENCE_S):
        await follow(job, lambda piece: _show(piece, ctx))
    if job.done:
        ctx.jobs.forget(job.id)
        return False
    if not params.run_in_background:
        ctx.jobs.keep(job)
    job.wakes = params.wake
    return True


def _show(piece: Piece, ctx: ToolContext) -> None:
    """Let everybody see what the command has just printed."""
    if piece.text:
        ctx.show_output(piece.offset, piece.text)


def _outcome(job: Job, params: BashParams, started_at: float, *, is_background: bool) -> Outcome:
    output, is_cut = report_of(job)
    if is_background:
        content = _job_note(job, params, output)
    else:
        content = f"{output or NO_OUTPUT}\n\n{_place(job)}"
    metadata = {
        "start_time": int(started_at * 1000),
        "end_time": int(time.time() * 1000),
        "output": output,
        "description": params.description,
        "working_directory": job.working_dir if is_background else job.last_directory,
    }
    if is_background:
        metadata |= {"background": True, "shell_id": job.id}
    else:
        metadata |= {"exit_code": job.exit_code}
    return Outcome(content=content, metadata=metadata, is_cut=is_cut)


def _place(job: Job) -> str:
    """Where the command ended; the next call begins where it is told to, and a model must not believe otherwise."""
    cwd = f"<cwd>{job.last_directory}</cwd>"
    if job.last_directory == job.working_dir:
        return cwd
    return f"{cwd}\nThe next command does not start there unless you set working_dir."


def _job_note(job: Job, params: BashParams, output: str) -> str:
    why = (
        "Started in the background" if params.run_in_background else "Still running, moved to the background"
    )
    note = f"{why} as job {job.id}. Use job_output to read what it prints and job_kill to end it."
    if params.wake:
        note += " You will be prompted when it has ended."
    return f"{note}\n\nSo far it printed:\n{output}" if output else note
