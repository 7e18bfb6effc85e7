"""`bullpen` processes that import nothing, as they are forked from one that has everything.

A server takes six tenths of a second to start, five of them for imports, and hundreds are started here. What is forked
is a process like any other, with an environment, a directory, streams and a session of its own; it is signalled, killed
and waited for. Tests of what a start costs, and of what the system shows of a process, take `subprocess` instead.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

multiprocessing.get_context("forkserver").set_forkserver_preload(["tests.warm.modules"])


class WarmProcess:
    """What the tests use of `subprocess.Popen`. The streams are descriptors, which stay the caller's."""

    def __init__(
        self, arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, streams: Sequence[int]
    ) -> None:
        theirs = [_Descriptor(number) for number in streams]
        # It goes with whoever started it, should nobody have ended it.
        self._process = ForkServerProcess(
            target=_become, args=(list(arguments), dict(env), cwd, theirs), daemon=True
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        status = self.returncode
        if status is None:
            raise subprocess.TimeoutExpired("bullpen", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_warm(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: bytes | None = None,
    limit_s: float = 40,
) -> subprocess.CompletedProcess[bytes]:
    """As `subprocess.run`: feed it, wait for its end, and give back what it said."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull, "rb") as nothing:
        if stdin is None:
            process = WarmProcess(
                arguments, env=env, cwd=cwd, streams=[nothing.fileno(), out.fileno(), err.fileno()]
            )
        else:
            theirs, ours = os.pipe()
            process = WarmProcess(arguments, env=env, cwd=cwd, streams=[theirs, out.fileno(), err.fileno()])
            os.close(theirs)
            threading.Thread(target=_feed, args=(ours, stdin), daemon=True).start()
        try:
            status = process.wait(limit_s)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(["bullpen", *arguments], status, out.read(), err.read())


def _feed(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb") as pipe:
        pipe.write(data)


class _Descriptor:
    """A descriptor that has the same number's file open in the process it is sent to."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _received, (DupFd(self._number),)


def _received(sent: Any) -> int:
    number: int = sent.detach()
    return number


def _become(arguments: list[str], env: dict[str, str], cwd: Path, streams: list[int]) -> None:
    """In the fork: be `bullpen` with these arguments, as if it had just been started."""
    os.setsid()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    for number, given in enumerate(streams):
        os.dup2(given, number)
        os.close(given)
    # What it has from its parent, its own children shall not have.
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2:
            with contextlib.suppress(OSError):
                os.set_inheritable(number, False)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    sys.argv = ["bullpen", *arguments]

    from bullpen.cli.main import main

    main()
