"""Shell commands, for real."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from tests.tools.conftest import Asked as Permission
from tests.tools.conftest import Bench

from bullpen.errors import ToolFailed
from bullpen.system.jobs import Owner
from bullpen.system.sandbox import Asked, no_landlock
from bullpen.tools.base import PermissionDenied


async def bash(bench: Bench, command: str, **more: object):
    return await bench.call("bash", command=command, description="d", **more)


async def test_output_errors_and_exit_code_come_in_this_order(bench: Bench) -> None:
    """A failing command is not a failed tool: the model reads the code."""
    outcome = await bash(bench, "echo oops >&2; echo fine; exit 3")
    assert outcome.content == f"fine\noops\nExit code 3\n\n<cwd>{bench.root}</cwd>"
    assert outcome.is_error is False
    assert outcome.metadata
    assert (outcome.metadata["output"], outcome.metadata["exit_code"]) == ("fine\noops\nExit code 3", 3)
    assert 0 < outcome.metadata["start_time"] <= outcome.metadata["end_time"]
    assert (outcome.metadata["description"], outcome.metadata["working_directory"]) == ("d", str(bench.root))


async def test_silence_is_said(bench: Bench) -> None:
    """An empty result would leave the model guessing."""
    assert (await bash(bench, "true; true")).content.startswith("no output\n\n<cwd>")


async def test_a_command_is_shown_before_it_runs(bench: Bench) -> None:
    """With all that decides what it does; nothing has happened when the person is asked."""

    def look(asked: Permission) -> None:
        assert not (bench.root / "made").exists()

    bench.on_permit = look
    await bash(bench, "touch made")
    (asked,) = bench.asked
    assert (asked.action, asked.path, asked.params["command"]) == ("execute", bench.root, "touch made")
    assert asked.params.keys() == {
        "description", "command", "working_dir", "run_in_background", "auto_background_after",
    }  # fmt: skip
    assert (bench.root / "made").exists()


async def test_a_refusal_leaves_no_trace(bench: Bench) -> None:
    """The command never starts, and the refusal goes to the engine."""

    def refuse(asked: Permission) -> None:
        raise PermissionDenied

    bench.on_permit = refuse
    outcome = await bash(bench, "touch made")
    assert (outcome.content, (bench.root / "made").exists()) == ("User denied permission", False)


async def test_known_reads_do_not_ask(bench: Bench) -> None:
    """Looking around in the workspace is free."""
    (bench.root / "a.txt").write_text("content\n")
    outcome = await bash(bench, "pwd && cat a.txt | head -n 1")
    assert outcome.content.startswith(f"{bench.root}\ncontent\n")
    assert bench.asked == []


async def test_a_read_through_a_link_to_the_outside_asks(bench: Bench) -> None:
    """Likewise one that runs outside: the text of the command does not show it."""
    (bench.root / "link").symlink_to(bench.root.parent / "outside")
    await bash(bench, "ls link")
    await bash(bench, "ls", working_dir=str(bench.root.parent / "outside"))
    await bash(bench, "ls", working_dir="link")
    assert len(bench.asked) == 3


async def test_the_directory_can_be_chosen(bench: Bench) -> None:
    """Relative to the workspace."""
    (bench.root / "sub").mkdir()
    outcome = await bash(bench, "pwd", working_dir="sub")
    assert outcome.content == f"{bench.root}/sub\n\n<cwd>{bench.root}/sub</cwd>"
    missing = await bash(bench, "pwd", working_dir="none")
    assert (missing.is_error, "not a directory" in missing.content) == (True, True)


@pytest.mark.parametrize(
    ("command", "ends"),
    [
        ("cd sub", "sub"),
        ("cd sub; false", "sub"),
        ("cd sub && exit 3", "sub"),
        ("set -e; cd sub; false; cd ..", "sub"),
        ("cd link", "link"),
        ("cd sub; builtin cd ..; cd sub; (cd /)", "sub"),
        ("(cd sub)", ""),
        ("cd 'with\nline'", ""),
        ("cd sub; cd() { :; }; pwd() { echo /; }", "sub"),
        ("cd sub; exec true", ""),
        ("cd sub; trap 'echo mine' EXIT", ""),
        ("cd sub; kill -9 $$", ""),
    ],
)
async def test_the_directory_in_the_result_is_where_the_command_ended(
    bench: Bench, command: str, ends: str
) -> None:
    """Where it began when the shell cannot say; and the model is told that the next call begins in the workspace."""
    (bench.root / "sub").mkdir()
    (bench.root / "with\nline").mkdir()
    (bench.root / "link").symlink_to("sub")
    outcome = await bash(bench, command)
    place = f"<cwd>{bench.root / ends}</cwd>"
    warning = "\nThe next command does not start there unless you set working_dir."
    assert outcome.content.endswith(place + (warning if ends else ""))
    assert (await bash(bench, "pwd")).content == f"{bench.root}\n\n<cwd>{bench.root}</cwd>"


async def test_a_command_sees_nothing_of_how_its_directory_is_found(bench: Bench) -> None:
    """Neither a variable, nor another line number or name of the script, nor another result."""
    outcome = await bash(bench, 'echo "$0 $LINENO ${BASH_ENV-unset} $#"; env | grep -c BASH_ENV; exit 5')
    assert outcome.content.startswith("/bin/bash 1 unset 0\n0\nExit code 5")


@pytest.mark.skipif(bool(no_landlock()), reason=no_landlock())
async def test_a_command_in_a_sandbox_is_told_about_it(bench: Bench) -> None:
    """Where it ended is known there, too; and a failure may have to do with the walls."""
    (bench.root / "sub").mkdir()
    await bench.sandbox.follow(Asked("landlock"), {})
    fine = await bash(bench, "cd sub; echo $BULLPEN_SANDBOX")
    assert fine.content.startswith(f"landlock\n\n<cwd>{bench.root}/sub</cwd>\n")
    failed = await bash(bench, f"touch {bench.root.parent}/outside/new")
    assert "It ran in a sandbox" in failed.content
    assert not (bench.root.parent / "outside/new").exists()


async def test_long_output_is_cut_in_the_middle(bench: Bench) -> None:
    """Beginning and end are what matters."""
    outcome = await bash(bench, "seq 1 100000")
    assert outcome.content.startswith("1\n2\n3\n")
    assert "\n100000\n\n<cwd>" in outcome.content
    assert "lines cut" in outcome.content
    assert len(outcome.content) < 31_000


async def test_a_background_command_becomes_a_job(bench: Bench) -> None:
    """It runs on after the call; its output can be read, and it can be ended."""
    outcome = await bash(bench, "echo up; exec sleep 600", run_in_background=True)
    assert outcome.metadata
    job_id = outcome.metadata["shell_id"]
    assert (outcome.metadata["background"], job_id in outcome.content) == (True, True)
    seen = await bench.call("job_output", shell_id=job_id, wait=False)
    assert seen.content == "Status: running\n\nup"
    assert seen.metadata == {
        "shell_id": job_id, "command": "echo up; exec sleep 600", "description": "d", "done": False,
        "working_directory": str(bench.root),
    }  # fmt: skip
    job = bench.jobs.get(job_id)
    assert job
    ended = await bench.call("job_kill", shell_id=job_id)
    assert (ended.is_error, job.done, bench.jobs.get(job_id)) == (False, True, None)


async def test_a_background_command_that_fails_at_once_is_an_ordinary_result(bench: Bench) -> None:
    """The model need not ask again to learn that."""
    outcome = await bash(bench, "echo no; exit 4", run_in_background=True)
    assert outcome.content == f"no\nExit code 4\n\n<cwd>{bench.root}</cwd>"
    assert bench.all_jobs.running() == 0


async def test_a_slow_command_moves_to_the_background(bench: Bench) -> None:
    """It goes on; waiting for it gives the rest."""
    os.mkfifo(bench.root / "gate")
    outcome = await bash(bench, "echo one; read < gate; echo two; exit 5", auto_background_after=1)
    assert outcome.metadata
    assert "Still running" in outcome.content
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.Path(bench.root / "gate").write_text, "go\n")
        rest = await bench.call("job_output", shell_id=outcome.metadata["shell_id"], wait=True)
    assert rest.content == "Status: completed\n\none\ntwo\nExit code 5"


async def test_a_cancelled_call_leaves_nothing_running(bench: Bench) -> None:
    """The cancel reaches the caller, and the whole tree is gone by then."""

    async def run() -> None:
        await bash(bench, "setsid sleep 600 & echo $! > pid; echo $BASHPID >> pid; wait")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        pids: list[int] = []
        while len(pids) < 2:
            await anyio.sleep(0.005)
            pids = [int(pid) for pid in read(bench.root / "pid").split()]
        tasks.cancel_scope.cancel()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


async def test_no_room_for_a_job_ends_the_command(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not run on without being listed."""
    monkeypatch.setattr("bullpen.system.jobs.JOBS_RUNNING", 0)
    outcome = await bash(bench, "echo $BASHPID > pid; exec sleep 600", run_in_background=True)
    assert (outcome.is_error, "job_kill" in outcome.content) == (True, True)
    pid = read(bench.root / "pid").strip()
    assert not pid or not Path(f"/proc/{pid}").exists()


async def test_everybody_sees_what_a_running_command_prints(bench: Bench) -> None:
    """Piece by piece, each where the last one ended; of a flood only the end."""
    os.mkfifo(bench.root / "gate")

    async def open_gates() -> None:
        for seen in (1, 2):
            await bench.has_shown(seen)
            await anyio.Path(bench.root / "gate").write_text("go\n")

    command = "echo one; read < gate; seq 1 10000 >&2; read < gate; echo over"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(open_gates)
        outcome = await bash(bench, command)
    assert bench.shown[0] == (0, "one\n")
    offset, text = bench.shown[-1]
    assert (text.endswith("\n10000\n"), offset + len(text), len(text) <= 8192) == (True, 48898, True)
    assert "over" in outcome.content


async def test_a_job_is_read_piece_by_piece(bench: Bench) -> None:
    """By offset as it came, or only its last lines; the result says where to go on."""
    outcome = await bash(bench, "seq 1 5; echo oops >&2; exec sleep 600", run_in_background=True)
    assert outcome.metadata
    job_id = outcome.metadata["shell_id"]
    first = await bench.call("job_output", shell_id=job_id, offset=0)
    assert first.content == "Status: running\n\n1\n2\n3\n4\n5\noops\n\n[running; next offset 15 of 15]"
    later = await bench.call("job_output", shell_id=job_id, offset=8)
    assert "\n\n5\noops\n" in later.content
    tail = await bench.call("job_output", shell_id=job_id, tail=2)
    assert (tail.content, tail.is_cut) == ("Status: running\n\n5\noops\n[running]", True)


async def test_waiting_for_a_job_has_a_limit(bench: Bench) -> None:
    """The call says so and the job runs on."""
    outcome = await bash(bench, "exec sleep 600", run_in_background=True)
    assert outcome.metadata
    seen = await bench.call("job_output", shell_id=outcome.metadata["shell_id"], wait=True, timeout=0)
    assert seen.content.startswith("Status: running")


async def test_jobs_belong_to_their_session(bench: Bench) -> None:
    """Another one neither lists nor reads nor ends them."""
    outcome = await bash(bench, "exec sleep 600", run_in_background=True)
    assert outcome.metadata
    job_id = outcome.metadata["shell_id"]
    listed = await bench.call("job_list")
    assert listed.content.startswith(f"{job_id}  running, started ")
    assert listed.content.endswith(" s ago, 0 bytes: exec sleep 600")
    bench.jobs = bench.all_jobs.of(Owner("s2"))
    assert (await bench.call("job_list")).content == "There are no background jobs."
    for name in ("job_output", "job_kill"):
        refused = await bench.call(name, shell_id=job_id)
        assert (refused.is_error, "of this session" in refused.content) == (True, True)
    job = bench.all_jobs.get(job_id)
    assert job
    assert not job.done


async def test_an_agent_that_knows_is_not_told(bench: Bench) -> None:
    """A job wakes its agent, unless it asked not to be woken or has seen the end."""
    ids = []
    for wake in (True, False):
        outcome = await bash(bench, "exec sleep 600", run_in_background=True, wake=wake)
        assert outcome.metadata
        assert ("You will be prompted" in outcome.content) is wake
        ids.append(outcome.metadata["shell_id"])
    jobs = [bench.all_jobs.find(job_id) for job_id in ids]
    assert [job.wakes for job in jobs] == [True, False]
    await bench.call("job_output", shell_id=ids[0], wait=True, timeout=0)
    assert jobs[0].wakes
    await jobs[0].kill()
    await bench.call("job_output", shell_id=ids[0])
    assert not jobs[0].wakes


async def test_unknown_jobs_are_told(bench: Bench) -> None:
    """The id is repeated, so the model sees its mistake."""
    for name in ("job_output", "job_kill"):
        outcome = await bench.call(name, shell_id="0FF", wait=False)
        assert (outcome.is_error, "'0FF'" in outcome.content) == (True, True)


async def test_an_empty_command_is_refused(bench: Bench) -> None:
    """Without asking a person about nothing."""
    outcome = await bash(bench, "  ")
    assert (outcome.is_error, bench.asked) == (True, [])


async def test_a_reason_for_a_refusal_reaches_the_model(bench: Bench) -> None:
    """The person wants something else; the turn goes on."""

    def redirect(asked: Permission) -> None:
        raise ToolFailed("use make instead")

    bench.on_permit = redirect
    assert (await bash(bench, "cc x.c")).content == "use make instead"


def read(file: Path) -> str:
    return file.read_text() if file.exists() else ""
