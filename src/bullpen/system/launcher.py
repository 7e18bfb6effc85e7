"""The program that starts commands: run by `processes.py` as a process of its own, never part of the server.

The server cannot find all that a command leaves behind: children that call `setsid`, fork twice or clear
their environment belong to nobody the server knows. So each command gets a small parent of its own, its
*keeper*, which is a child subreaper (Linux): whatever a command starts and abandons becomes the keeper's
child. "No children left" then means that nothing of the command is left, and that is what the keeper waits
for when it has to end a command. A subreaper is a property of a process, so the server's own children are
not touched. The launcher is one as well: a command may kill or stop its keeper, which is the same user's, and
what it leaves then is ended here.

The launcher itself only forks keepers. It is small and has one thread, hence forking is quick and safe; the
server is neither. On the socket FD it gets one byte and four descriptors per command: standard input, output
and error, and the keeper's line to the server. On that line the keeper gets the order (four bytes of length,
then the JSON of `Order`), and says, a JSON line each, `{"pid": n}` or `{"error": [errno, text]}`, later
`{"over": limit}` when it ends the command for that, and `{"exit": code, "cwd": directory}`. The line closes when
the last process is gone. When the server closes its side, or dies, the keeper ends everything: TERM, after GRACE_S
KILL.

Elsewhere than on Linux there are no subreapers; there the keeper can only end the command's process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from typing import NamedTuple, NoReturn

from bullpen.system.cgroups import Groups
from bullpen.system.confine import Confinement, enter
from bullpen.system.limits import NICENESS, NO_LIMITS, Limits, Watch, hold
from bullpen.system.trees import Tree
from bullpen.system.waking import Wake

GRACE_S = 2.0
"""Between TERM and KILL: long enough to remove a lock file, short enough for a person who waits."""

GIVE_UP_S = 3.0
"""After KILL: what is still there then hangs in the kernel, and no signal will end it."""

LOOK_S = 0.02
"""How often a tree is looked at that does not end at once."""

PR_SET_CHILD_SUBREAPER = 36

RESET = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)
"""Python or whoever started the server may ignore these; a command starts with none ignored."""

BEGIN_FD, PLACE_FD = 198, 199
"""Where bash finds what it does before the command, and where it says at its end in which directory it is. Numbers
that no script uses for itself."""

BEGIN = f"unset BASH_ENV; exec {BEGIN_FD}<&-; trap 'builtin pwd 2>&- >&{PLACE_FD}' EXIT\n".encode()
"""Read by bash as its start file, so that neither the text of the command nor its line numbers change. A command that
replaces the shell or sets an EXIT trap of its own says no directory, and is told to have stayed where it began."""

PLACE_BYTES = 8192

PRIORITY = -10
"""Keepers have to look and kill while a command takes all there is. Only root may have this."""


class Order(NamedTuple):
    """What a keeper is to start."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    limits: Limits = NO_LIMITS
    tells_place: bool = False
    """Whether bash is to say where it was at its end."""
    walls: Confinement | None = None

    @classmethod
    def read(cls, body: bytes) -> Order:
        argv, cwd, env, limits, tells_place, walls = json.loads(body)
        return cls(argv, cwd, env, Limits(*limits), tells_place, walls and Confinement(*walls))


class Common(NamedTuple):
    """What all commands have in common. `begin` is bash's start file."""

    groups: Groups
    niceness: int
    begin: int


def main() -> None:
    door = socket.socket(fileno=int(sys.argv[1]))
    door.set_inheritable(False)
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(usual, PRIORITY))
    _become_subreaper()
    groups = Groups([]) if "no-groups" in sys.argv[2:] else Groups.find(os.getppid())
    gc.freeze()
    Launcher(door, Common(groups, usual + NICENESS, _start_file())).run()


class Launcher:
    """Forks keepers, and sees to what a keeper leaves that was killed."""

    def __init__(self, door: socket.socket, common: Common) -> None:
        self._door = door
        self._common = common
        self._wake = Wake()
        self._keepers: set[int] = set()
        self._has_strays = False
        self._give_up_at = 0.0
        self._left: list[str] = []
        """The groups of killed keepers."""

    def run(self) -> None:
        while True:
            pause = LOOK_S if self._has_strays else None
            ready, _, _ = select.select([self._door.fileno(), self._wake.fd], [], [], pause)
            self._wake.clear()
            self._collect()
            if self._door.fileno() in ready:
                order, fds, _, _ = socket.recv_fds(self._door, 1, 4)
                if not order:
                    break
                self._fork_keeper(fds)
        while self._collect():
            select.select([self._wake.fd], [], [], LOOK_S if self._has_strays else None)
            self._wake.clear()

    def _collect(self) -> bool:
        """Whether there are children left, once the dead were collected and strays were ended."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    break
                if os.WIFSTOPPED(status):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
                    continue
                if pid in self._keepers and os.WIFSIGNALED(status):
                    # One that ended by itself has ended all it had, and its group, before.
                    self._has_strays = True
                    self._give_up_at = time.monotonic() + GIVE_UP_S
                    self._left.append(_group_name(pid))
                self._keepers.discard(pid)
        except ChildProcessError:
            self._forget_strays()
            return False
        if self._has_strays:
            self._end_strays()
        return True

    def _end_strays(self) -> None:
        """What a killed keeper had are our children now; without it nobody could end them later."""
        found = Tree(os.getpid()).look()
        strays = [
            pid for pid, place in found.items() if place.parent == os.getpid() and pid not in self._keepers
        ]
        for pid in strays:
            Tree(pid).kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not strays or time.monotonic() > self._give_up_at:
            self._forget_strays()

    def _forget_strays(self) -> None:
        self._has_strays = False
        for name in self._left:
            self._common.groups.sweep(name)
        self._left = []

    def _fork_keeper(self, fds: list[int]) -> None:
        """A failed fork closes the keeper's line, which tells the server."""
        for fd in fds:
            os.set_inheritable(fd, False)
        try:
            pid = os.fork()
        except OSError:
            pid = -1
        if pid == 0:
            self._door.close()
            self._wake.close()
            try:
                Keeper(socket.socket(fileno=fds[3]), self._common).run(fds[:3])
            finally:
                os._exit(0)
        if pid > 0:
            self._keepers.add(pid)
        for fd in fds:
            os.close(fd)


class Keeper:
    """Parent of one command and of all that it abandons."""

    def __init__(self, line: socket.socket, common: Common) -> None:
        self._line = line
        self._groups, self._niceness, self._begin = common
        self._pid = 0
        self._place = -1
        self._wake = Wake()
        self._watch: Watch | None = None
        self._over = ""

    def run(self, streams: list[int]) -> None:
        _become_subreaper()
        order = self._read_order()
        if order is None:
            return
        try:
            if order.tells_place:
                self._open_place()
            self._pid = _start(order, [*streams, self._begin, self._place], self._niceness)
        except OSError as exc:
            self._say({"error": [exc.errno, exc.strerror]})
            return
        for fd in streams:
            os.close(fd)
        self._say({"pid": self._pid})
        self._watch = Watch(os.getpid(), order.limits, self._groups, _group_name(os.getpid()))
        self._keep(self._watch)
        self._watch.close()

    def _keep(self, watch: Watch) -> None:
        """Until nothing of the command is left."""
        while self._has_children():
            ready, _, _ = select.select([self._line.fileno(), self._wake.fd], [], [], watch.pause())
            if self._line.fileno() in ready:
                self._end_all(GRACE_S)
                return
            self._wake.clear()
            if over := watch.over():
                self._say_over(over)
                self._end_all(GRACE_S if over == "time" else 0.0)
                return

    def _say_over(self, over: str) -> None:
        if over and not self._over:
            self._over = over
            self._say({"over": over})

    def _open_place(self) -> None:
        """Have a file in which bash can leave a note, and no more than that."""
        self._place = os.memfd_create("place", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self._place, PLACE_BYTES)
        fcntl.fcntl(
            self._place, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        )

    def _read_place(self) -> str:
        """What bash has left there, if it is one whole line with a path."""
        said = os.pread(self._place, PLACE_BYTES, 0).partition(b"\0")[0] if self._place >= 0 else b""
        is_path = said.startswith(b"/") and said.find(b"\n") == len(said) - 1
        return os.fsdecode(said[:-1]) if is_path else ""

    def _read_order(self) -> Order | None:
        size = self._read_exactly(4)
        body = self._read_exactly(int.from_bytes(size, "big")) if size else b""
        return Order.read(body) if body else None

    def _read_exactly(self, size: int) -> bytes:
        """Nothing at all when the server hung up in the middle."""
        found = bytearray()
        while len(found) < size:
            chunk = self._line.recv(min(size - len(found), 1 << 16))
            if not chunk:
                return b""
            found += chunk
        return bytes(found)

    def _say(self, words: dict[str, object]) -> None:
        try:
            self._line.sendall(json.dumps(words).encode() + b"\n")
        except OSError:
            return  # The server is gone; the next look at the line tells us to end.

    def _has_children(self) -> bool:
        """Collect the dead; tell the server when the command itself is among them."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._pid:
                    if status and self._watch is not None:
                        # A limit may have ended it before anybody looked.
                        self._say_over(self._watch.held())
                    self._say({"exit": os.waitstatus_to_exitcode(status), "cwd": self._read_place()})
        except ChildProcessError:
            return False

    def _end_all(self, grace_s: float) -> None:
        begin = time.monotonic()
        if grace_s:
            self._signal_all(signal.SIGTERM)
            self._signal_all(signal.SIGCONT)
        while self._has_children():
            spent = time.monotonic() - begin
            if spent > grace_s + GIVE_UP_S:
                return
            if spent >= grace_s:
                self._signal_all(signal.SIGKILL)
            select.select([self._wake.fd], [], [], LOOK_S if spent >= grace_s else grace_s - spent)
            self._wake.clear()

    def _signal_all(self, number: int) -> None:
        if sys.platform != "linux":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(-self._pid, number)
        elif number == signal.SIGKILL:
            Tree(os.getpid()).kill()
        else:
            Tree(os.getpid()).signal(number)


def _become_subreaper() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _start_file() -> int:
    if sys.platform != "linux":
        return -1
    file = os.memfd_create("begin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(file, BEGIN)
    fcntl.fcntl(
        file,
        fcntl.F_ADD_SEALS,
        fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL,
    )
    return file


def _group_name(keeper: int) -> str:
    """Of the launcher and the keeper."""
    return f"{os.getppid() if os.getpid() == keeper else os.getpid()}-{keeper}"


def _start(order: Order, fds: list[int], niceness: int) -> int:
    """The pid of the command, in a session of its own. Raises OSError when it cannot be started."""
    problem, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(order, fds, report, niceness)
    os.close(report)
    told = os.read(problem, 4096)
    os.close(problem)
    if told:
        os.waitpid(pid, 0)
        number, text = json.loads(told)
        raise OSError(number, text)
    return pid


def _become(order: Order, fds: list[int], report: int, niceness: int) -> NoReturn:
    """Whatever fails on the way, the command does not run: a limit or a wall that cannot be set is no detail."""
    try:
        os.setsid()
        for number in RESET:
            signal.signal(number, signal.SIG_DFL)
        env = order.env
        for target, fd in enumerate(fds[:3]):
            os.dup2(fd, target)
        if order.tells_place:
            env = {**env, "BASH_ENV": f"/dev/fd/{BEGIN_FD}"}
            os.dup2(fds[3], BEGIN_FD)
            os.dup2(fds[4], PLACE_FD)
        os.chdir(order.cwd)
        hold(order.limits, niceness)
        if order.walls is not None:
            enter(order.walls)
        os.execve(order.argv[0], order.argv, env)
    except OSError as exc:
        os.write(report, json.dumps([exc.errno, exc.strerror]).encode())
    except BaseException as exc:
        os.write(report, json.dumps([0, f"{type(exc).__name__}: {exc}"[:1000]]).encode())
    finally:
        os._exit(127)


if __name__ == "__main__":
    main()
