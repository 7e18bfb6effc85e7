"""The terminal of the line-mode client: lines come in while text goes out, and neither garbles the other.

`LineTerminal` keeps a one-row input line below the output: it is taken away before anything is written and
drawn again after it, also when the output stops in the middle of a line. `PipeTerminal` does without, for input
that is not typed. Both hand over `Line`, `Interrupt` and `End`; both print only what `inert` has made safe.
"""

from __future__ import annotations

import codecs
import os
import re
import shutil
import signal
import sys
import termios
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

import anyio

from bullpen.present.inert import char_width

_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
_KEY = re.compile(r"\x1b\[[0-9;?]*[A-Za-z~]|\x1bO[A-Za-z]|\x1b.|[^\x1b]", re.DOTALL)
_UNFINISHED_KEY = re.compile(r"\x1b(\[[0-9;?]*|O)?\Z")


@dataclass(frozen=True, slots=True)
class Line:
    """What a person typed and sent."""

    text: str


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Ctrl-C; `dropped` says that it only emptied the input line."""

    dropped: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """Ctrl-D, or no more input."""


Input = Line | Interrupt | End


class Terminal(Protocol):
    """What the client needs of a terminal."""

    @property
    def width(self) -> int: ...
    def write(self, text: str) -> None:
        """Print text as it stands, without a line break of its own."""

    def line(self, text: str = "") -> None:
        """Print whole lines: what was printed before ends first."""

    def ask_unseen(self, prompt: str) -> None:
        """From now on what is typed is not shown and not remembered."""

    def ask_seen(self) -> None:
        """As before."""

    async def next(self) -> Input: ...


@asynccontextmanager
async def open_terminal(prompt: str) -> AsyncIterator[Terminal]:
    """The person's terminal for the length of the block; it is left as it was found."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        terminal = LineTerminal(sys.stdin.fileno(), sys.stdout, prompt)
        async with terminal.opened():
            yield terminal
    else:
        pipe = PipeTerminal(sys.stdin, sys.stdout)
        async with pipe.opened():
            yield pipe


class LineReader:
    """Lines from a file descriptor, without a thread that would outlive us waiting for one more."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._rest = b""
        self._may_wait = True

    async def line(self) -> str | None:
        """The next line without its end, or None when there are no more."""
        while b"\n" not in self._rest:
            data = await self._more()
            if not data:
                last, self._rest = self._rest, b""
                return last.decode("utf-8", "replace") if last else None
            self._rest += data
        first, _, self._rest = self._rest.partition(b"\n")
        return first.decode("utf-8", "replace").removesuffix("\r")

    async def _more(self) -> bytes:
        if self._may_wait:
            try:
                await anyio.wait_readable(self._source)
            except PermissionError:
                # Files never keep one waiting, and the system refuses to wait for them.
                self._may_wait = False
        return os.read(self._source, 65536)


class PipeTerminal:
    """Input from a pipe or a file: lines are read as they are asked for."""

    def __init__(self, source: TextIO, out: TextIO) -> None:
        self._reader = LineReader(source.fileno())
        self._out = out
        self._is_mid_line = False
        self._interrupted = anyio.Event()

    @property
    def width(self) -> int:
        return shutil.get_terminal_size().columns

    def write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._out.flush()
            self._is_mid_line = not text.endswith("\n")

    def line(self, text: str = "") -> None:
        self.write(("\n" if self._is_mid_line else "") + text + "\n")

    def ask_unseen(self, prompt: str) -> None:
        """Nobody types here."""

    def ask_seen(self) -> None:
        """Nobody types here."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch)
            yield
            tasks.cancel_scope.cancel()

    async def next(self) -> Input:
        found: Input = Interrupt()

        async def read() -> None:
            nonlocal found
            text = await self._reader.line()
            found = End() if text is None else Line(text)
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await self._interrupted.wait()
            tasks.cancel_scope.cancel()
        if isinstance(found, Interrupt):
            self._interrupted = anyio.Event()
        return found

    async def _watch(self) -> None:
        with anyio.open_signal_receiver(signal.SIGINT) as signals:
            async for _ in signals:
                self._interrupted.set()


class LineTerminal:
    """A terminal with an input line of its own."""

    def __init__(self, source: int, out: TextIO, prompt: str) -> None:
        self._source = source
        self._out = out
        self._prompt = self._usual_prompt = prompt
        self._is_unseen = False
        self._buffer: list[str] = []
        self._at = 0
        self._history: list[str] = []
        self._recalled = 0
        self._column = 0
        self._is_shown = False
        self._keys = ""
        self._is_pasting = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._inputs: deque[Input] = deque()
        self._wake = anyio.Event()
        self._saved: list[Any] = []

    @property
    def width(self) -> int:
        try:
            return max(os.get_terminal_size(self._out.fileno()).columns, 20)
        except OSError:
            return 80

    # Output

    def write(self, text: str) -> None:
        if not text:
            return
        self._hide()
        self._out.write(text)
        self._advance(text)
        self._show()

    def line(self, text: str = "") -> None:
        self.write(("\n" if self._column else "") + text + "\n")

    def ask_unseen(self, prompt: str) -> None:
        self._ask(prompt, is_unseen=True)

    def ask_seen(self) -> None:
        self._ask(self._usual_prompt, is_unseen=False)

    def _ask(self, prompt: str, *, is_unseen: bool) -> None:
        self._hide()
        self._prompt, self._is_unseen = prompt, is_unseen
        self._show()

    def _advance(self, text: str) -> None:
        """Follow the cursor, as the terminal moves it."""
        width = self.width
        _, newline, last = text.rpartition("\n")
        column = 0 if newline else self._column
        for character in last:
            step = char_width(character)
            if column + step > width:
                column = 0
            column += step
        self._column = column

    def _show(self) -> None:
        if not self._is_shown and self._saved:
            shown, cursor = self._window()
            start = "\r\n" if self._column else "\r"
            back = len_in_columns(shown) - cursor
            self._out.write(f"{start}\x1b[K{shown}" + (f"\x1b[{back}D" if back else ""))
            self._is_shown = True
        self._out.flush()

    def _hide(self) -> None:
        if not self._is_shown:
            return
        self._is_shown = False
        self._out.write("\r\x1b[K")
        if self._column and self._column < self.width:
            self._out.write(f"\x1b[1A\x1b[{self._column + 1}G")
        else:
            # A full row: what comes next would have begun on this row anyway.
            self._column = 0

    def _window(self) -> tuple[str, int]:
        """The part of the input line that fits on one row, and the cursor's column in it."""
        room = self.width - len_in_columns(self._prompt) - 1
        shown = ["•" if self._is_unseen else "⏎" if c == "\n" else c for c in self._buffer]
        first = 0
        while len_in_columns("".join(shown[first : self._at])) > room:
            first += 1
        last = len(shown)
        while len_in_columns("".join(shown[first:last])) > room:
            last -= 1
        cursor = len_in_columns(self._prompt) + len_in_columns("".join(shown[first : self._at]))
        return self._prompt + "".join(shown[first:last]), cursor

    # Input

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Take the terminal over, and give it back however the block ends."""
        self._saved = termios.tcgetattr(self._source)
        try:
            self._take()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read)
                tasks.start_soon(self._watch)
                self._show()
                yield
                tasks.cancel_scope.cancel()
        finally:
            self._hide()
            if self._column:
                self._out.write("\n")
            self._give_back()
            self._saved = []

    async def next(self) -> Input:
        while not self._inputs:
            self._wake = anyio.Event()
            await self._wake.wait()
        return self._inputs.popleft()

    def _take(self) -> None:
        """Have every key come to us one by one, also those that would send a signal: a paste may hold them."""
        modes = termios.tcgetattr(self._source)
        modes[0] &= ~termios.IXON
        modes[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._source, termios.TCSADRAIN, modes)
        self._out.write(_PASTE_ON)

    def _give_back(self) -> None:
        self._out.write(_PASTE_OFF)
        self._out.flush()
        termios.tcsetattr(self._source, termios.TCSADRAIN, self._saved)

    def _suspend(self) -> None:
        """Ctrl-Z: the shell gets its terminal back until it lets us go on."""
        if self._column:
            self._out.write("\n")
            self._column = 0
        self._give_back()
        os.kill(0, signal.SIGTSTP)
        self._take()

    def _interrupt(self) -> None:
        self._put(Interrupt(dropped=bool(self._buffer)))
        self._buffer, self._at = [], 0

    def _put(self, found: Input) -> None:
        self._inputs.append(found)
        self._wake.set()

    async def _watch(self) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGCONT, signal.SIGWINCH) as signals:
            async for number in signals:
                self._hide()
                if number == signal.SIGINT:
                    self._interrupt()
                elif number == signal.SIGCONT:
                    # The shell in between has set the terminal up for itself.
                    self._take()
                self._show()

    async def _read(self) -> None:
        while True:
            await anyio.wait_readable(self._source)
            try:
                data = os.read(self._source, 4096)
            except OSError:
                data = b""
            if not data:
                self._put(End())
                return
            self._hide()
            self._take_keys(self._decoder.decode(data))
            self._show()

    def _take_keys(self, text: str) -> None:
        text = self._keys + text
        unfinished = _UNFINISHED_KEY.search(text)
        self._keys = unfinished[0] if unfinished else ""
        whole = text[: unfinished.start()] if unfinished else text
        for key in _KEY.findall(whole):
            self._take_key(key)

    def _take_key(self, key: str) -> None:
        match key:
            case "\x1b[200~":
                self._is_pasting = True
            case "\x1b[201~":
                self._is_pasting = False
            case "\n" | "\r" if not self._is_pasting:
                self._send()
            case _ if self._is_pasting and key not in "\r\n\t":
                if key.isprintable():
                    self._insert(key)
            case "\x03":
                self._interrupt()
            case "\x1a":
                self._suspend()
            case "\x04":
                if not self._buffer:
                    self._put(End())
            case "\x7f" | "\x08":
                if self._at:
                    self._at -= 1
                    del self._buffer[self._at]
            case "\x1b[3~":
                del self._buffer[self._at : self._at + 1]
            case "\x01" | "\x1b[H" | "\x1bOH" | "\x1b[1~":
                self._at = 0
            case "\x05" | "\x1b[F" | "\x1bOF" | "\x1b[4~":
                self._at = len(self._buffer)
            case "\x02" | "\x1b[D" | "\x1bOD":
                self._at = max(self._at - 1, 0)
            case "\x06" | "\x1b[C" | "\x1bOC":
                self._at = min(self._at + 1, len(self._buffer))
            case "\x10" | "\x1b[A" | "\x1bOA":
                self._recall(-1)
            case "\x0e" | "\x1b[B" | "\x1bOB":
                self._recall(1)
            case "\x15":
                del self._buffer[: self._at]
                self._at = 0
            case "\x0b":
                del self._buffer[self._at :]
            case "\x17":
                self._rub_out_word()
            case "\x0c":
                self._out.write("\x1b[2J\x1b[H")
                self._column = 0
            case "\t":
                self._insert("    ")
            case _ if key in "\r\n":
                self._insert("\n")
            case _ if key.isprintable():
                self._insert(key)
            case _:
                pass

    def _insert(self, text: str) -> None:
        self._buffer[self._at : self._at] = text
        self._at += len(text)

    def _rub_out_word(self) -> None:
        start = self._at
        while start and self._buffer[start - 1].isspace():
            start -= 1
        while start and not self._buffer[start - 1].isspace():
            start -= 1
        del self._buffer[start : self._at]
        self._at = start

    def _recall(self, step: int) -> None:
        place = self._recalled + step
        if not self._is_unseen and 0 <= place <= len(self._history):
            self._recalled = place
            self._buffer = list(self._history[place]) if place < len(self._history) else []
            self._at = len(self._buffer)

    def _send(self) -> None:
        text = "".join(self._buffer)
        self._buffer, self._at = [], 0
        if text.strip() and not self._is_unseen and text not in self._history[-1:]:
            self._history.append(text)
        self._recalled = len(self._history)
        self._put(Line(text))


def len_in_columns(text: str) -> int:
    """How many columns the text takes."""
    return sum(map(char_width, text))
