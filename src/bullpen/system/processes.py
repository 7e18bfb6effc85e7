"""Start commands, read what they write, and end them with all they started.

`Processes` is the door to the launcher (see `launcher.py`, which says how a whole tree is found); it starts
that helper at the first command. A `Process` needs no task: it is moved on by callbacks of the event loop and
wakes on exit, so a short command costs a few milliseconds. The end of a command is the end of its own
process: something it left behind may hold the pipes open for as long as it likes. Such leftovers run on,
and end with `kill` or with `Processes.close`; also when the server dies.

What is kept of the output has a fixed size (see `spool.py`). Past FLOOD_BYTES it is read slowly, and the pipe
slows the writer down.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio

from bullpen.system.confine import Confinement
from bullpen.system.limits import NO_LIMITS, Limits, describe
from bullpen.system.spool import Spool, Tape
from bullpen.system.tally import Tally

FLOOD_BYTES = 16 * 1024 * 1024
FLOOD_PAUSE_S = 0.005
READ_BYTES = 64 * 1024

KILL_LIMIT_S = 6.0
"""How long `kill` waits for the keeper, which needs 2 s for TERM and at most 3 s for KILL."""

LAUNCH = "import sys; sys.path.append(sys.argv.pop(1)); from bullpen.system.launcher import main; main()"
"""The launcher sees the standard library first, then us, and nothing that is installed beside us."""


class Process:
    """One command. Made by `Processes.start`."""

    def __init__(
        self,
        line: socket.socket,
        streams: tuple[int | None, int],
        forget: Callable[[Process], None],
        tally: Tally,
        stdout: Spool,
        tape: Tape | None,
        limits: Limits,
    ) -> None:
        self._limits = limits
        self._over = ""
        self._loop = asyncio.get_running_loop()
        self._line = line
        self._words = bytearray()
        self._forget = forget
        self._tally = tally
        self._started = anyio.Event()
        self._exited = anyio.Event()
        self._gone = anyio.Event()
        self._problem: OSError | None = None
        self._hung_up = False
        self.pid = 0
        self.exit_code: int | None = None
        """As a shell gives it: 128 + n for a process that signal n ended."""
        self.last_directory = ""
        """Where the shell was at its end, if it was asked to say."""
        self.on_exit: Callable[[], None] | None = None
        self.on_gone: Callable[[], None] | None = None
        self.stdout, self.stderr = stdout, Spool()
        self._tape = tape
        self._drains = [
            _Drain(self._loop, fd, spool, tape)
            for fd, spool in zip(streams, (self.stdout, self.stderr), strict=True)
            if fd is not None
        ]
        self._loop.add_reader(line.fileno(), self._on_line)

    @property
    def gone(self) -> bool:
        """Whether the command and all it started have ended."""
        return self._gone.is_set()

    @property
    def broke_limit(self) -> str:
        """The limit that the command was ended for, in words; nothing when it was none."""
        by_signal = {128 + signal.SIGXFSZ: "file", 128 + signal.SIGXCPU: "cpu"}
        over = self._over or by_signal.get(self.exit_code or 0, "")
        return describe(over, self._limits) if over else ""

    async def wait(self) -> None:
        """Until the command itself has ended and what it wrote has been read."""
        await self._exited.wait()

    async def kill(self) -> None:
        """End the command and all it started: TERM, after 2 s KILL. Harmless when all is over."""
        self._hang_up()
        with anyio.move_on_after(KILL_LIMIT_S):
            await self._gone.wait()

    async def begin(self, order: Sequence[Any]) -> None:
        """Give the order to the keeper and wait until it is carried out. Only `Processes` calls this."""
        body = json.dumps(order).encode("utf-8", "surrogateescape")
        try:
            await self._loop.sock_sendall(self._line, len(body).to_bytes(4, "big") + body)
            await self._started.wait()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.kill()
            raise
        if self._problem is not None:
            raise self._problem

    def _hang_up(self) -> None:
        """Tell the keeper to end everything; its answer is that the line closes."""
        if self._gone.is_set() or self._hung_up:
            return
        self._hung_up = True
        self._tally["commands_killed"] += 1
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)

    def _on_line(self) -> None:
        try:
            said = self._line.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            self._end()
            return
        self._words += said
        while b"\n" in self._words:
            sentence, _, self._words = self._words.partition(b"\n")
            self._hear(json.loads(sentence))

    def _hear(self, words: dict[str, Any]) -> None:
        match words:
            case {"pid": int(pid)}:
                self.pid = pid
                self._started.set()
            case {"exit": int(code), "cwd": str(place)}:
                self.last_directory = place
                self._exit(code if code >= 0 else 128 - code)
            case {"over": str(limit)}:
                self._over = limit
                self._tally["commands_over_limit"] += 1
            case {"error": [number, text]}:
                self._problem = OSError(number, text)

    def _exit(self, code: int) -> None:
        for drain in self._drains:
            drain.read_all()
        self.exit_code = code
        self._exited.set()
        if self._tape is not None:
            self._tape.end()
        if self.on_exit is not None:
            self.on_exit()

    def _end(self) -> None:
        """Nothing of the command is left, or its keeper was killed, which nobody can tell apart from here."""
        self._loop.remove_reader(self._line.fileno())
        self._line.close()
        if not self._started.is_set():
            self._problem = self._problem or OSError("the process could not be started")
            self._started.set()
        if self.exit_code is None:
            self._exit(128 + signal.SIGKILL)
        for drain in self._drains:
            drain.close()
        self._gone.set()
        self._forget(self)
        if self.on_gone is not None:
            self.on_gone()


class _Drain:
    """Moves what a pipe holds into a spool, and onto a tape."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, spool: Spool, tape: Tape | None) -> None:
        self._loop, self._fd, self._spool, self._tape = loop, fd, spool, tape
        self._pause: asyncio.TimerHandle | None = None
        os.set_blocking(fd, False)
        loop.add_reader(fd, self._read)

    def _read(self) -> None:
        if self._take() and self._spool.total > FLOOD_BYTES:
            self._loop.remove_reader(self._fd)
            self._pause = self._loop.call_later(FLOOD_PAUSE_S, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._fd, self._read)

    def _take(self) -> bool:
        if self._fd < 0:
            return False
        try:
            chunk = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self.close()
        self._spool.add(chunk)
        if self._tape is not None:
            self._tape.add(chunk)
        return bool(chunk)

    def read_all(self) -> None:
        """What the pipe holds now: at most 1 MiB, so a leftover that goes on writing cannot hold us here."""
        for _ in range(16):
            if not self._take():
                return

    def close(self) -> None:
        if self._fd < 0:
            return
        if self._pause is not None:
            self._pause.cancel()
        else:
            self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1


class Processes:
    """Starts commands for one owner, and ends all of them at the end of its `async with`. Limits are held by control groups
    where there are some, unless `use_groups` says otherwise."""

    def __init__(self, tally: Tally | None = None, *, use_groups: bool = True) -> None:
        self._use_groups = use_groups
        self._tally = Tally() if tally is None else tally
        self._tally.gauges["commands"] = lambda: len(self._live)
        self._lock = anyio.Lock()
        self._door: socket.socket | None = None
        self._launcher: subprocess.Popen[bytes] | None = None
        self._live: set[Process] = set()
        self._closed = False

    async def __aenter__(self) -> Processes:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: bytes | int = b"",
        stdout: Spool | int | None = None,
        tape: Tape | None = None,
        tells_place: bool = False,
        limits: Limits = NO_LIMITS,
        walls: Confinement | None = None,
    ) -> Process:
        """Start a program (by absolute path) in a session of its own, with nothing of our environment.

        What it writes goes to `stdout`, or to head and tail; both streams together also to `tape`. Descriptors that are given
        stay the caller's to close. With `tells_place` a bash says at its end in which directory it is. `walls` are put up before
        the program begins; it does not begin when they cannot stand.

        Raises OSError when the directory or the program is not there, or nothing more can be started.
        A cancel while starting ends whatever has been started, and only then goes on.
        """
        if any("\0" in word for word in (*argv, str(cwd), *env.keys(), *env.values())):
            raise OSError(errno.EINVAL, "a command cannot hold a NUL byte")
        process = await self._ask_for_one(stdin, Spool() if stdout is None else stdout, tape, limits)
        await process.begin([list(argv), str(cwd), dict(env), limits, tells_place, walls])
        return process

    async def warm(self) -> None:
        """Have the launcher ready before the first command, which then need not wait some 30 ms for it."""
        await self._open_door()

    async def close(self) -> None:
        """End every command and all that was left behind. Takes at most some 6 s, also when cancelled."""
        self._closed = True
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for process in list(self._live):
                    tasks.start_soon(process.kill)
            async with self._lock:
                await self._dismiss()

    async def _ask_for_one(
        self, stdin: bytes | int, stdout: Spool | int, tape: Tape | None, limits: Limits
    ) -> Process:
        """Hand descriptors to the launcher; one that died is replaced once."""
        for last in (False, True):
            door = await self._open_door()
            try:
                return self._hand_over(door, stdin, stdout, tape, limits)
            except (BrokenPipeError, ConnectionResetError):
                if last:
                    raise
                async with self._lock:
                    await self._dismiss()
        raise AssertionError("unreachable")

    def _hand_over(
        self,
        door: socket.socket,
        stdin: bytes | int,
        stdout: Spool | int,
        tape: Tape | None,
        limits: Limits,
    ) -> Process:
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            out = None
            if isinstance(stdout, int):
                out_end = os.dup(stdout)
            else:
                out, out_end = os.pipe()
                ours.callback(os.close, out)
            theirs.callback(os.close, out_end)
            err, err_end = os.pipe()
            ours.callback(os.close, err)
            theirs.callback(os.close, err_end)
            line, line_end = socket.socketpair()
            line.setblocking(False)
            ours.callback(line.close)
            theirs.callback(line_end.close)
            source = os.dup(stdin) if isinstance(stdin, int) else _readable(stdin)
            theirs.callback(os.close, source)
            socket.send_fds(door, [b"+"], [source, out_end, err_end, line_end.fileno()])
            ours.pop_all()
        self._keep_awake()
        kept = Spool() if isinstance(stdout, int) else stdout
        process = Process(line, (out, err), self._live.discard, self._tally, kept, tape, limits)
        self._live.add(process)
        return process

    async def _open_door(self) -> socket.socket:
        async with self._lock:
            if self._closed:
                raise OSError("no more commands are started here")
            if self._door is not None:
                return self._door
            door, self._launcher = await anyio.to_thread.run_sync(_start_launcher, self._use_groups)
            self._door = door
            return door

    def _keep_awake(self) -> None:
        """A command may have stopped the launcher: both are the same user's."""
        if self._launcher is not None:
            self._launcher.send_signal(signal.SIGCONT)

    async def _dismiss(self) -> None:
        """Close the door; the launcher leaves when its last keeper has."""
        self._keep_awake()
        door, launcher = self._door, self._launcher
        self._door = self._launcher = None
        if door is not None:
            door.close()
        if launcher is not None:
            await anyio.to_thread.run_sync(_collect, launcher)


@functools.cache
def shell() -> str:
    """The shell that commands are written for: bash, or the plain one where there is no bash."""
    if os.access("/bin/bash", os.X_OK):
        return "/bin/bash"
    return shutil.which("bash") or "/bin/sh"


def shell_argv(command: str) -> tuple[str, ...]:
    """The two dashes keep a command that begins with a dash from being an option."""
    return (shell(), "-c", "--", command)


def _start_launcher(use_groups: bool) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair()
    words = [str(Path(__file__).parents[2]), str(theirs.fileno()), *([] if use_groups else ["no-groups"])]
    with theirs:
        launcher = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCH, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # A command can look at its parents' environment: there is nothing of the server's in it.
            env={
                name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ
            },
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    return ours, launcher


def _collect(launcher: subprocess.Popen[bytes]) -> None:
    try:
        launcher.wait(KILL_LIMIT_S)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()


def _readable(content: bytes) -> int:
    """A descriptor to read the content from. A file and no pipe, so nobody has to write along."""
    if not content:
        return os.open(os.devnull, os.O_RDONLY)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return os.dup(file.fileno())
