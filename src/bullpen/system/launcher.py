"""The program that starts commands: run as `python -I -S launcher.py FD`, never imported by the server.

The server cannot find all that a command leaves behind: children that call `setsid`, fork twice or clear
their environment belong to nobody the server knows. So each command gets a small parent of its own, its
*keeper*, which is a child subreaper (Linux): whatever a command starts and abandons becomes the keeper's
child. "No children left" then means that nothing of the command is left, and that is what the keeper waits
for when it has to end a command. A subreaper is a property of a process, so the server's own children are
not touched.

The launcher itself only forks keepers. It is small and has one thread, hence forking is quick and safe; the
server is neither. On the socket FD it gets one byte and four descriptors per command: standard input, output
and error, and the keeper's line to the server. On that line the keeper gets the order (four bytes of length,
then JSON with argv, cwd, env), and says, a JSON line each, `{"pid": n}` or `{"error": [errno, text]}`, later
`{"exit": code}`. The line closes when the last process is gone. When the server closes its side, or dies, the
keeper ends everything: TERM, after GRACE_S KILL.

Elsewhere than on Linux there are no subreapers; there the keeper can only end the command's process group.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any, NoReturn

GRACE_S = 2.0
"""Between TERM and KILL: long enough to remove a lock file, short enough for a person who waits."""

GIVE_UP_S = 3.0
"""After KILL: what is still there then hangs in the kernel, and no signal will end it."""

PR_SET_CHILD_SUBREAPER = 36

RESET = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)
"""Python or whoever started the server may ignore these; a command starts with none ignored."""


def main() -> None:
    door = socket.socket(fileno=int(sys.argv[1]))
    door.set_inheritable(False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    while True:
        order, fds, _, _ = socket.recv_fds(door, 1, 4)
        if not order:
            break
        _fork_keeper(door, fds)
    _wait_for_all()


def _fork_keeper(door: socket.socket, fds: list[int]) -> None:
    """A failed fork closes the keeper's line, which tells the server."""
    for fd in fds:
        os.set_inheritable(fd, False)
    try:
        is_keeper = os.fork() == 0
    except OSError:
        is_keeper = False
    if is_keeper:
        door.close()
        try:
            Keeper(socket.socket(fileno=fds[3])).run(fds[:3])
        finally:
            os._exit(0)
    for fd in fds:
        os.close(fd)


def _wait_for_all() -> None:
    """With SIGCHLD ignored this returns when the last keeper has ended."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


class Keeper:
    """Parent of one command and of all that it abandons."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.pid = 0
        self.woken, wake = os.pipe()
        os.set_blocking(self.woken, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake)

    def run(self, streams: list[int]) -> None:
        _become_subreaper()
        order = self._read_order()
        if order is None:
            return
        try:
            self.pid = _start(order, streams)
        except OSError as exc:
            self._say({"error": [exc.errno, exc.strerror]})
            return
        for fd in streams:
            os.close(fd)
        self._say({"pid": self.pid})
        while self._has_children():
            ready, _, _ = select.select([self.line.fileno(), self.woken], [], [])
            if self.line.fileno() in ready:
                self._end_all()
                return
            self._clear_wake()

    def _read_order(self) -> dict[str, Any] | None:
        size = self._read_exactly(4)
        body = self._read_exactly(int.from_bytes(size, "big")) if size else b""
        return json.loads(body) if body else None

    def _read_exactly(self, size: int) -> bytes:
        """Nothing at all when the server hung up in the middle."""
        found = bytearray()
        while len(found) < size:
            chunk = self.line.recv(min(size - len(found), 1 << 16))
            if not chunk:
                return b""
            found += chunk
        return bytes(found)

    def _say(self, words: dict[str, Any]) -> None:
        try:
            self.line.sendall(json.dumps(words).encode() + b"\n")
        except OSError:
            return  # The server is gone; the next look at the line tells us to end.

    def _has_children(self) -> bool:
        """Collect the dead; tell the server when the command itself is among them."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.pid:
                    self._say({"exit": os.waitstatus_to_exitcode(status)})
        except ChildProcessError:
            return False

    def _end_all(self) -> None:
        begin = time.monotonic()
        self._signal_all(signal.SIGTERM)
        self._signal_all(signal.SIGCONT)
        while self._has_children():
            spent = time.monotonic() - begin
            if spent > GRACE_S + GIVE_UP_S:
                return
            if spent >= GRACE_S:
                # Again and again: a process may have forked between the look and the signal.
                self._signal_all(signal.SIGKILL)
            select.select([self.woken], [], [], 0.02 if spent >= GRACE_S else GRACE_S - spent)
            self._clear_wake()

    def _signal_all(self, number: int) -> None:
        for pid in _descendants(os.getpid()) if sys.platform == "linux" else [-self.pid]:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue

    def _clear_wake(self) -> None:
        try:
            while os.read(self.woken, 512):
                pass
        except BlockingIOError:
            return


def _become_subreaper() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _start(order: dict[str, Any], streams: list[int]) -> int:
    """The pid of the command, in a session of its own. Raises OSError when it cannot be started."""
    problem, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(order, streams, report)
    os.close(report)
    told = os.read(problem, 16)
    os.close(problem)
    if told:
        os.waitpid(pid, 0)
        raise OSError(int(told), os.strerror(int(told)))
    return pid


def _become(order: dict[str, Any], streams: list[int], report: int) -> NoReturn:
    try:
        os.setsid()
        for number in RESET:
            signal.signal(number, signal.SIG_DFL)
        for target, fd in enumerate(streams):
            os.dup2(fd, target)
        os.chdir(order["cwd"])
        os.execve(order["argv"][0], order["argv"], order["env"])
    except OSError as exc:
        os.write(report, str(exc.errno).encode())
    finally:
        os._exit(127)


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            children.setdefault(_parent_of(name), []).append(int(name))
    found = list(children.get(root, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def _parent_of(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            # The name in brackets may hold anything, brackets too: count from the last one.
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


if __name__ == "__main__":
    main()
