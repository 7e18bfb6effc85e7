"""A program at a terminal of our own: what it paints, how soon, and at what cost. The program believes that a person sits there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import process
from bench.errors import BenchError

COLUMNS, ROWS = 120, 40
PATIENCE_S = 60.0
SOME_WORDS = 5
MOST_RESTLESS_S = 3.0

_SEQUENCES = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_].*?\x1b\\|[@-Z\\-_=>])"
)
_ASKS_FOR_SYNC = b"\x1b[?2026$p"
_FRAME = b"\x1b[?2026h"


class Screen:
    """What a program has painted so far, without the orders to the terminal."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int, began: float) -> None:
        self.process = process
        self.began = began
        self.frames = 0
        self._terminal = terminal
        self._text = b""
        self._raw = b""

    def until(self, *words: str, since: float | None = None) -> float:
        """Read on until all words have been painted; how long that took, in seconds since the start or since a moment."""
        wanted = [word.encode() for word in words]
        ends = time.perf_counter() + PATIENCE_S
        while not all(word in self._text for word in wanted):
            if time.perf_counter() > ends:
                raise BenchError(f"{words} was never painted; last: {self._text[-300:]!r}")
            self._read(ends)
        return time.perf_counter() - (self.began if since is None else since)

    def until_anything(self) -> float:
        """Read on until some words have been painted, whichever they are; how long that took, in seconds since the start."""
        ends = time.perf_counter() + PATIENCE_S
        while len(self._text.split()) < SOME_WORDS:
            if time.perf_counter() > ends:
                raise BenchError("nothing was painted")
            self._read(ends)
        return time.perf_counter() - self.began

    def press(self, key: str) -> float:
        """Press a key; how long until anything is painted, in seconds."""
        self.rest(0.05)
        self._text = b""
        pressed = time.perf_counter()
        os.write(self._terminal, key.encode())
        self._read(pressed + PATIENCE_S)
        return time.perf_counter() - pressed

    def rest(self, seconds: float) -> None:
        """Read whatever comes until nothing has come for so long; not for ever, as a caret may blink."""
        ends = time.perf_counter() + MOST_RESTLESS_S
        while time.perf_counter() < ends and select.select([self._terminal], [], [], seconds)[0]:
            self._read(time.perf_counter() + 1)

    def watch(self, seconds: float) -> None:
        """Read whatever comes, for so long."""
        ends = time.perf_counter() + seconds
        while (left := ends - time.perf_counter()) > 0:
            if select.select([self._terminal], [], [], left)[0]:
                self._read(ends)

    def forget(self) -> None:
        """Look for words only in what comes from now on."""
        self._text = b""

    def cpu_s(self) -> float:
        return process.cpu_s(self.process.pid)

    def resident_mib(self) -> float:
        return process.resident_mib(self.process.pid)

    def _read(self, ends: float) -> None:
        if not select.select([self._terminal], [], [], max(ends - time.perf_counter(), 0))[0]:
            return
        try:
            came = os.read(self._terminal, 1 << 16)
        except OSError as exc:
            raise BenchError(f"the program ended: {self._text[-300:]!r}") from exc
        if _ASKS_FOR_SYNC in came:
            # A terminal that draws frames whole says so; then the program marks them, and they can be counted.
            os.write(self._terminal, b"\x1b[?2026;2$y")
        self.frames += came.count(_FRAME)
        self._raw = (self._raw + came)[-(1 << 18) :]
        whole, rest = _cut(self._raw)
        self._text += _SEQUENCES.sub(b"", whole)
        self._raw = rest


def _cut(raw: bytes) -> tuple[bytes, bytes]:
    """What is complete, and a sequence at the end that may not be."""
    at = raw.rfind(b"\x1b")
    if at >= 0 and not _SEQUENCES.match(raw, at):
        return raw[:at], raw[at:]
    return raw, b""


@contextmanager
def seated(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> Iterator[Screen]:
    """The program, started at a terminal; ended with the block."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        env={**env, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"},
        cwd=cwd,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Screen(process, ours, began)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)
