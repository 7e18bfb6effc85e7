"""Background jobs, over the wire: seen by all, told to their agent, ended by anybody, gone with the server."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Figure
from tests.journeys.server import COMMAND, Bullpen, Client, open_gate, until
from tests.journeys.stream import Stream, text_of

from bullpen.client.workspace import attach
from bullpen.errors import JobNotFound

OVER = {"when": "has ended", "say": "I have heard."}


def background(command: str, **more: Any) -> dict[str, Any]:
    asked = {"description": "a job", "command": command, "run_in_background": True} | more
    return {"id": "call_job", "name": "bash", "input": asked}


def begin(client: Client) -> tuple[Stream, str, dict[str, Any]]:
    """Have the agent start its job; the stream, the session and the job."""
    stream, session_id = client.stream(), client.session()
    stream.completion(client.prompt(session_id, "go", permissions="allow"))
    return stream, session_id, stream.next("job", "created")


def project(bullpen: Bullpen, *calls: dict[str, Any]) -> Path:
    return bullpen.project({"when": "go", "calls": list(calls)}, {"when": "go", "say": "started"}, OVER)


def words(client: Client, session_id: str) -> list[str]:
    return [text_of(m) for m in client.messages(session_id) if text_of(m)]


def test_an_agent_is_woken_when_its_job_has_ended(shared: Bullpen) -> None:
    """Everybody sees the end, and the agent goes on by itself with what its turn was allowed."""
    pipe = shared.home / "woken"
    os.mkfifo(pipe)
    client = shared.attach(project(shared, background(f"cat {pipe}; exit 3")))
    stream, session_id, job = begin(client)
    (listed,) = client.ok("GET", "/jobs")
    assert (listed["id"], listed["session_id"], listed["running"]) == (job["id"], session_id, True)
    before = stream.mark()
    open_gate(pipe)
    ended = stream.next("job", "updated")
    assert (ended["running"], ended["exit_code"], ended["ended_at"] >= ended["started_at"]) == (
        False,
        3,
        True,
    )
    stream.next("run_complete", since=before)
    assert words(client, session_id) == [
        "go",
        "started",
        f"[Background job {job['id']} (a job) has ended with exit code 3. job_output shows what it printed.]",
        "I have heard.",
    ]


def test_a_job_is_followed_and_ended_from_outside(shared: Bullpen) -> None:
    """Its output comes as it is printed; its end by a person wakes nobody."""
    pipe = shared.home / "followed"
    os.mkfifo(pipe)
    client = shared.attach(project(shared, background(f"echo one; cat {pipe}; exec sleep 600")))
    _, session_id, job = begin(client)
    first = client.ok("GET", f"/jobs/{job['id']}/output?wait=30")
    assert (first["text"], first["next_offset"], first["running"]) == ("one\n", 4, True)
    open_gate(pipe)
    more = client.ok("GET", f"/jobs/{job['id']}/output?offset=4&wait=30")
    assert more == {"offset": 4, "text": "open\n", "next_offset": 9, "total": 9, "running": True}
    ended = client.ok("DELETE", f"/jobs/{job['id']}")
    assert (ended["running"], ended["exit_code"]) == (False, 128 + 15)
    rest = client.ok("GET", f"/jobs/{job['id']}/output?offset=9&wait=30")
    assert (rest["text"], rest["running"]) == ("", False)
    assert client.call("GET", "/jobs/0FF/output").json()["code"] == "job_not_found"
    assert words(client, session_id) == ["go", "started"]
    assert not client.is_busy(session_id)


def test_a_cancel_keeps_jobs_from_waking_their_agent(shared: Bullpen) -> None:
    """Somebody has said stop; the job runs on."""
    pipe = shared.home / "cancelled"
    os.mkfifo(pipe)
    client = shared.attach(project(shared, background(f"cat {pipe}")))
    stream, session_id, _ = begin(client)
    client.cancel(session_id)
    open_gate(pipe)
    stream.next("job", "updated")
    stream.completion(client.prompt(session_id, "has ended?"))
    assert words(client, session_id) == ["go", "started", "has ended?", "I have heard."]


def test_a_session_takes_its_jobs_with_it(shared: Bullpen) -> None:
    """Nobody could read them any more."""
    client = shared.attach(project(shared, background("echo $$ > pid; exec sleep 600")))
    stream, session_id, _ = begin(client)
    pid = int((client.path / "pid").read_text())
    client.ok("DELETE", f"/sessions/{session_id}")
    stream.next("job", "deleted")
    assert not Path(f"/proc/{pid}").exists()
    assert client.ok("GET", "/jobs") == []


def test_everybody_sees_what_a_running_command_prints(shared: Bullpen) -> None:
    """While it runs, also whoever did not ask for it."""
    pipe = shared.home / "shown"
    os.mkfifo(pipe)
    call = background(f"echo halfway; cat {pipe}", run_in_background=False)
    client = shared.attach(project(shared, call))
    other = shared.attach(client.path)
    stream, watching, session_id = client.stream(), other.stream(), client.session()
    run = client.prompt(session_id, "go", permissions="allow")
    shown = {"session_id": session_id, "tool_call_id": "call_job", "offset": 0, "text": "halfway\n"}
    assert stream.next("command_output") == shown
    assert watching.next("command_output") == shown
    open_gate(pipe)
    stream.completion(run)


def test_the_command_line_lists_follows_and_ends_jobs(shared: Bullpen) -> None:
    """Without opening a workspace; the exit status of a followed job is the job's own."""
    pipe = shared.home / "listed"
    os.mkfifo(pipe)
    client = shared.attach(project(shared, background(f"echo up; cat {pipe}; exit 7", wake=False)))
    _, _, job = begin(client)
    listed = jobs(shared, "list", "--in", str(client.path))
    assert f"{job['id']}  running" in listed.stdout
    follow = subprocess.Popen(
        [
            *COMMAND[:-1],
            "-H",
            f"unix://{shared.socket}",
            "jobs",
            "follow",
            job["id"],
            "--in",
            str(client.path),
        ],
        env=shared.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follow.stdout
    assert follow.stdout.readline() == "up\n"
    open_gate(pipe)
    assert (follow.stdout.read(), follow.wait()) == ("open\n", 7)
    follow.stdout.close()
    assert jobs(shared, "kill", job["id"], "--in", str(client.path)).stdout == f"ended: {job['id']}\n"
    missing = jobs(shared, "follow", "FFF", "--in", str(client.path))
    assert (missing.returncode, "'bullpen jobs' lists them" in missing.stderr) == (1, True)


def test_the_python_client_follows_a_job(shared: Bullpen) -> None:
    """From one offset to the next, and ends it."""
    client = shared.attach(project(shared, background("echo up; exec sleep 600", wake=False)))
    _, session_id, job = begin(client)

    async def follow() -> None:
        async with attach(client.path, host=f"unix://{shared.socket}", env=shared.env) as room:
            assert [j.id for j in await room.jobs(session_id)] == [job["id"]]
            first = await room.job_output(job["id"], wait_s=20)
            assert (first.text, first.running) == ("up\n", True)
            assert not (await room.kill_job(job["id"])).running
            with pytest.raises(JobNotFound):
                await room.job_output("FFF")

    asyncio.run(follow())


def test_no_job_outlives_a_killed_server(bullpen: Bullpen, figure: Figure) -> None:
    """R-26: after a crash jobs are gone, and the list says so."""
    hidden = "setsid sh -c 'echo $$ > hidden; exec sleep 600' & echo $$ > plain; exec sleep 600"
    client = bullpen.attach(project(bullpen, background(hidden)))
    begin(client)
    pids = [int((client.path / name).read_text()) for name in ("hidden", "plain")]
    bullpen.kill()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "all of the job to be gone")
    bullpen.restart()
    again = bullpen.attach(client.path)
    assert again.ok("GET", "/jobs") == []
    figure(
        "R-26",
        "KILL",
        f"{len(pids)} processes of a job, one in a session of its own: 0 left after a kill of the server",
    )


def jobs(bullpen: Bullpen, *arguments: str) -> subprocess.CompletedProcess[str]:
    return bullpen.run_command("-H", f"unix://{bullpen.socket}", "jobs", *arguments, check=False)
