"""`bullpen jobs`: what agents have left running, what it prints, and its end.

Single calls only: looking at jobs opens no workspace and starts no server.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bullpen.cli.options import directory_of, host_option

if TYPE_CHECKING:
    from bullpen.system.address import Address

WAIT_S = 5
"""How long one call waits for more output: shorter than the time a call may take."""

_directory = click.option(
    "--in", "directory", metavar="DIR", default="", help="Only this workspace. [default: all]"
)
_id = click.argument("job_id", metavar="ID")


class Found(NamedTuple):
    """A job and the call that leads to it."""

    workspace: str
    base: str
    job: dict[str, Any]


@click.group(
    "jobs", invoke_without_command=True, short_help="List, follow and end the agents' background jobs."
)
@click.pass_context
def command(ctx: click.Context) -> int:
    """See and end what agents have started in the background. Without a command: list it.

    \b
    Examples:
      bullpen jobs
      bullpen jobs follow 003
      bullpen jobs kill 003
    """
    return 0 if ctx.invoked_subcommand else _list("", None, as_json=False)


@command.command("list")
@_directory
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@host_option
def list_(directory: str, as_json: bool, host: str | None) -> int:
    """List background jobs, running and lately ended.

    \b
    Examples:
      bullpen jobs list
      bullpen jobs list --in ~/project --json
    """
    return _list(directory, host, as_json=as_json)


@command.command("follow")
@_id
@_directory
@host_option
def follow(job_id: str, directory: str, host: str | None) -> int:
    """Print what a job has printed, and go on until it has ended. Ctrl-C leaves; the job runs on.

    The exit status is the job's own.

    \b
    Examples:
      bullpen jobs follow 003
      bullpen jobs follow 003 --in ~/project > build.log
    """
    from bullpen.cli.calls import get
    from bullpen.client.locate import find_address
    from bullpen.present.inert import inert

    address = find_address(host)
    found = _one(address, directory, job_id)
    offset = 0
    while True:
        piece = get(address, f"{found.base}/output?offset={offset}&wait={WAIT_S}")
        if piece["offset"] > offset:
            click.echo(f"[{piece['offset'] - offset} bytes are not kept any more]", err=True)
        # A pipe gets the very text; a terminal must not obey it.
        sys.stdout.write(inert(piece["text"]) if sys.stdout.isatty() else piece["text"])
        sys.stdout.flush()
        offset = piece["next_offset"]
        if not piece["running"] and offset >= piece["total"]:
            break
    return int(_one(address, directory, job_id).job.get("exit_code", 0))


@command.command("kill")
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@_directory
@host_option
def kill(job_ids: tuple[str, ...], directory: str, host: str | None) -> int:
    """End jobs with everything they started. Their agent is not woken for it.

    \b
    Examples:
      bullpen jobs kill 003
      bullpen jobs kill 003 00A --in ~/project
    """
    from bullpen.cli.calls import call
    from bullpen.client.locate import find_address
    from bullpen.errors import BullpenError

    address = find_address(host)
    for job_id in job_ids:
        found = _one(address, directory, job_id)
        reply = call(address, "DELETE", found.base)
        if reply.status != 200:
            raise BullpenError(reply.message)
        click.echo(f"ended: {found.job['id']}")
    return 0


def lines(found: list[Found], now: float) -> list[str]:
    """For people: the workspaces, and under each its jobs."""
    from bullpen.present.inert import cut, inert_line

    told: list[str] = []
    for workspace in dict.fromkeys(each.workspace for each in found):
        told.append(inert_line(workspace))
        for job in (each.job for each in found if each.workspace == workspace):
            state = "running" if job["running"] else f"exit {job.get('exit_code', 0)}"
            age = _span(now - job["started_at"])
            told.append(cut(f"  {job['id']}  {state:<8}  {age:>5}  {inert_line(job['command'])}", 120))
    return told or ["no background jobs"]


def _list(directory: str, host: str | None, *, as_json: bool) -> int:
    from bullpen.client.locate import find_address
    from bullpen.errors import ServerUnreachable

    try:
        found = _all(find_address(host), directory)
    except ServerUnreachable:
        if host:
            raise
        found = []
    if as_json:
        click.echo(json.dumps([{"workspace": each.workspace, **each.job} for each in found]))
    else:
        click.echo("\n".join(lines(found, time.time())))
    return 0


def _all(address: Address, directory: str) -> list[Found]:
    from bullpen.cli.calls import call, get

    wanted = os.path.realpath(directory_of(directory)) if directory else ""
    found: list[Found] = []
    for row in get(address, "/workspaces"):
        if wanted and os.path.realpath(row["path"]) != wanted:
            continue
        base = f"/workspaces/{row['id']}/jobs"
        jobs = call(address, "GET", base).body
        # A workspace may close between two calls; then it has no jobs.
        rows = jobs if isinstance(jobs, list) else []
        found += [Found(row["path"], f"{base}/{job['id']}", job) for job in rows]
    return found


def _one(address: Address, directory: str, job_id: str) -> Found:
    from bullpen.present.inert import inert_line

    found = [each for each in _all(address, directory) if each.job["id"] == job_id.upper()]
    if not found:
        raise click.ClickException(f"no background job has the id {job_id}; 'bullpen jobs' lists them")
    if len(found) > 1:
        where = ", ".join(inert_line(each.workspace) for each in found)
        raise click.ClickException(f"several workspaces have a job {job_id}; say which with --in: {where}")
    return found[0]


def _span(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(int(seconds), 0)}s"
