"""Commands are started, read and ended for real; nothing of them stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.conftest import Figure

from bullpen.system.processes import Process, Processes, shell_argv
from bullpen.system.spool import Spool

ENV = {"PATH": os.environ["PATH"]}

DAEMON = (
    "python3 -c 'import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); "
    'open("pids", "a").write(f"{os.getpid()}\\n"); os.chdir("/"); print("ready", flush=True); os.closerange(0, 3); '
    "time.sleep(600)'"
)

ESCAPES = {
    "plain": "echo $BASHPID >> pids; echo ready; sleep 600",
    "background": "sh -c 'echo $$ >> pids; sleep 600' & echo $BASHPID >> pids; sleep 0.2; echo ready; wait",
    "nohup": "nohup sh -c 'echo $$ >> pids; echo ready; sleep 600' & wait",
    "setsid": "setsid sh -c 'echo $$ >> pids; echo ready; sleep 600'",
    "double fork": "( (setsid sh -c 'echo $$ >> pids; echo ready; sleep 600' &) & ) ; sleep 600",
    "cleared environment": "env -i setsid sh -c '(echo $$ >> pids; echo ready; sleep 600) & exit'; sleep 600",
    "no pipes": "setsid sh -c 'echo $$ >> pids; (exec >/dev/null 2>&1 </dev/null; sleep 600) & echo ready' ; sleep 600",
    "ignores TERM": "trap '' TERM; echo $BASHPID >> pids; echo ready; while :; do sleep 1; done",
    "ignores TERM elsewhere": "setsid sh -c 'trap \"\" TERM; echo $$ >> pids; echo ready; while :; do sleep 1; done' & wait",
    "stopped": "echo $BASHPID >> pids; echo ready; kill -STOP $BASHPID",
    "disown": "sh -c 'echo $$ >> pids; echo ready; exec sleep 600' & disown -a; wait",
    "own group": "set -m; sh -c 'echo $$ >> pids; echo ready; exec sleep 600' & wait",
    "closed descriptors": "sh -c 'echo $$ >> pids; echo ready; exec sleep 600 >&- 2>&- <&-' & wait; sleep 600",
    "daemon": f"{DAEMON}; sleep 600",
    "daemon that ignores all": f"trap '' HUP INT TERM USR1 ALRM; {DAEMON}; sleep 600",
    "chain of short lives": (
        "echo $BASHPID >> pids; go() { echo $BASHPID >> pids; [ $1 = 0 ] && exec sleep 600; (go $(($1-1))) & }; "
        "(go 9) & while [ $(wc -l < pids) -lt 11 ]; do :; done; echo ready; wait; sleep 600"
    ),
    "stops its keeper": "kill -STOP $PPID; echo $BASHPID >> pids; echo ready; sleep 600",
    "kills its keeper": "echo $BASHPID >> pids; setsid sh -c 'echo $$ >> pids; exec sleep 600' & "
    "while [ $(wc -l < pids) -lt 2 ]; do :; done; echo ready; kill -9 $PPID; sleep 600",
    "stops the launcher": "kill -STOP $(ps -o ppid= -p $PPID); echo $BASHPID >> pids; echo ready; sleep 600",
    "the shell is gone": "setsid sh -c 'echo $$ >> pids; echo ready; sleep 600' & while ! [ -s pids ]; do :; done",
}


async def start(processes: Processes, command: str, cwd: Path = Path("/")) -> Process:
    return await processes.start(shell_argv(command), cwd=cwd, env=ENV)


async def until(happened: Callable[[], bool]) -> None:
    """What another process does has no event; so look again and again."""
    with anyio.fail_after(30):
        while True:
            if happened():
                return
            await anyio.sleep(0.005)


def alive(pid: int) -> bool:
    """A zombie counts as alive: nobody may be left to collect."""
    return Path(f"/proc/{pid}").exists()


async def test_output_and_exit_code_are_told(processes: Processes, tmp_path: Path) -> None:
    """Both streams apart, in the directory asked for, with no input and nothing of our environment."""
    process = await start(processes, "pwd; env | grep -c HOME; cat; echo problem >&2; exit 3", tmp_path)
    await process.wait()
    assert process.stdout.text() == f"{tmp_path}\n0\n"
    assert (process.stderr.text(), process.exit_code) == ("problem\n", 3)


async def test_input_is_given(processes: Processes) -> None:
    """Also more than a pipe would hold, and to a command that reads none of it."""
    stdin = b"x" * 300_000
    reader = await processes.start(shell_argv("wc -c"), cwd=Path("/"), env=ENV, stdin=stdin)
    other = await processes.start(shell_argv("true"), cwd=Path("/"), env=ENV, stdin=stdin)
    await reader.wait()
    await other.wait()
    assert (reader.stdout.text().strip(), other.exit_code) == ("300000", 0)


async def test_a_program_that_is_not_there_is_an_error(processes: Processes, tmp_path: Path) -> None:
    """Likewise a directory, and a NUL byte."""
    with pytest.raises(FileNotFoundError):
        await processes.start(["/no/such/program"], cwd=tmp_path, env=ENV)
    with pytest.raises(FileNotFoundError):
        await start(processes, "true", tmp_path / "missing")
    with pytest.raises(OSError, match="NUL"):
        await start(processes, "echo a\0b")


async def test_death_by_signal_reads_as_in_a_shell(processes: Processes) -> None:
    """128 and the number of the signal."""
    process = await start(processes, "kill -9 $BASHPID")
    await process.wait()
    assert process.exit_code == 128 + signal.SIGKILL


async def test_signals_have_their_usual_meaning(processes: Processes) -> None:
    """Python ignores SIGPIPE; a pipeline whose reader leaves must still end."""
    process = await start(processes, "yes | head -n 1")
    with anyio.fail_after(10):
        await process.wait()
    assert process.stdout.text() == "y\n"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("style", ESCAPES)
async def test_nothing_survives_a_kill(
    processes: Processes, tmp_path: Path, style: str, figure: Figure
) -> None:
    """However a command tries to get away, and within the time that was promised."""
    process = await start(processes, ESCAPES[style], tmp_path)
    await until(lambda: "ready" in process.stdout.text())
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    begin = time.monotonic()
    await process.kill()
    assert process.gone
    # Where the keeper was killed, the launcher ends the rest, and tells nobody.
    await until(lambda: not any(map(alive, pids)))
    spent_s = time.monotonic() - begin
    assert pids
    assert spent_s < 15  # Two seconds of grace; the rest is for a loaded machine.
    figure("R-23", "ATTK", f"ways to escape a kill: 1, 0 survivors, all gone after ≤ {spent_s:.2f} s")


async def test_a_leftover_that_holds_the_pipe_does_not_hold_the_wait(processes: Processes) -> None:
    """The end of a command is the end of its own process; what it left runs on until the owner ends."""
    process = await start(processes, "setsid sleep 600 & echo $!")
    with anyio.fail_after(10):
        await process.wait()
    pid = int(process.stdout.text())
    assert (process.exit_code, process.gone, alive(pid)) == (0, False, True)
    await processes.close()
    assert (process.gone, alive(pid)) == (True, False)


async def test_many_commands_run_side_by_side(processes: Processes) -> None:
    """Each gets its own output."""

    async def one(number: int) -> None:
        process = await start(processes, f"echo {number}; exit {number}")
        await process.wait()
        told.add((process.stdout.text(), process.exit_code or 0))

    told: set[tuple[str, int]] = set()
    async with anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(one, number)
    assert told == {(f"{number}\n", number) for number in range(40)}


async def test_endless_output_costs_a_fixed_amount(processes: Processes) -> None:
    """Head and tail stay, and the loop goes on turning."""
    process = await start(processes, "echo begin; yes; echo end")
    await until(lambda: process.stdout.total > 20 * 1024 * 1024)
    await process.kill()
    text = process.stdout.text()
    assert len(text) < 1_100_000
    assert text.startswith("begin\ny\n")
    assert "bytes dropped" in text


async def test_a_cancel_while_waiting_leaves_the_command_to_its_owner(processes: Processes) -> None:
    """Waiting is not owning: the command can be waited for again."""
    process = await start(processes, "read -t 0.2 < <(sleep 5); echo over")
    with anyio.move_on_after(0.01):
        await process.wait()
    assert process.exit_code is None
    await process.wait()
    assert process.stdout.text() == "over\n"


async def test_a_dead_launcher_is_replaced(processes: Processes) -> None:
    """Somebody may kill it; the next command just takes a little longer."""
    first = await start(processes, "ps -o ppid= -p $PPID")
    await first.wait()
    launcher = int(first.stdout.text())
    os.kill(launcher, signal.SIGKILL)
    await until(lambda: ") Z " in Path(f"/proc/{launcher}/stat").read_text())
    second = await start(processes, "echo again")
    await second.wait()
    assert second.stdout.text() == "again\n"


async def test_nothing_starts_after_the_close(processes: Processes) -> None:
    """A late caller is told, and the launcher is gone."""
    process = await start(processes, "ps -o ppid= -p $PPID")
    await process.wait()
    await processes.close()
    assert not alive(int(process.stdout.text()))
    with pytest.raises(OSError, match="no more commands"):
        await start(processes, "true")


def test_commands_die_with_the_server(tmp_path: Path) -> None:
    """After a kill -9 of the server nothing of its commands is left, however well hidden."""
    program = textwrap.dedent("""
        import anyio, os
        from pathlib import Path
        from bullpen.system.processes import Processes, shell_argv
        async def main():
            command = "env -i setsid sh -c 'sleep 600 & echo $!; wait'; sleep 600"
            process = await Processes().start(shell_argv(command), cwd=Path("/"), env={"PATH": os.environ["PATH"]})
            while not process.stdout.text().strip():
                await anyio.sleep(0.005)
            print(process.stdout.text(), flush=True)
            await process.wait()
        anyio.run(main)
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        pid = int(server.stdout.readline())
        server.kill()
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(pid)


def test_a_spool_keeps_head_and_tail() -> None:
    """Short content is kept whole; of a long one the middle is counted and dropped."""
    spool = Spool(half_bytes=4)
    spool.add(b"abcd")
    spool.add(b"efgh")
    assert spool.text() == "abcdefgh"
    for letter in b"ijklmnop":
        spool.add(bytes([letter]))
    assert spool.text() == "abcd\n\n… 8 bytes dropped …\n\nmnop"
