"""The last lines of the server's log, kept in memory for whoever asks what went wrong."""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from typing import NamedTuple

MOST = 500
LONGEST_CHARS = 2000
"""Of one line: a message may hold what a model or a host has said."""

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Entry(NamedTuple):
    at: float
    level: str
    source: str
    message: str

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.at))
        return f"{when} {self.level} {self.source}: {self.message}"


class Journal(logging.Handler):
    """Whole entries, so that none is lost at the edge of a block of a file; the oldest go first."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: deque[Entry] = deque(maxlen=MOST)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
            if record.exc_info is not None and record.exc_info[1] is not None:
                message += f" ({type(record.exc_info[1]).__name__}: {record.exc_info[1]})"
        except (TypeError, ValueError, KeyError):  # The words do not fit; who logs does not expect an error.
            self.handleError(record)
            return
        self._entries.append(Entry(record.created, record.levelname, record.name, _cut(one_line(message))))

    def last(self, most: int) -> list[Entry]:
        """The newest entries, the oldest of them first."""
        return list(self._entries)[-most:] if most > 0 else []


def one_line(message: str) -> str:
    """The message in one line, whatever names are in it: nobody can write a second one with a name of theirs."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", message)


def _cut(message: str) -> str:
    return message if len(message) <= LONGEST_CHARS else f"{message[:LONGEST_CHARS]}…"
