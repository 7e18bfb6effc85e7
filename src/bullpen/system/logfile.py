"""The server's log on disk: lines of JSON that are kept in few files of bounded size, and reading them from their end."""

from __future__ import annotations

import io
import json
import logging
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from bullpen.system.files import private
from bullpen.system.journal import one_line

NAME = "bullpen.log"
LARGEST_BYTES = 4 * 1024 * 1024
OLDER = 3
"""How many full files are kept beside the one that grows: some days of a busy server."""

BLOCK_BYTES = 64 * 1024
LOOK_S = 0.25


def log_path(data_dir: Path) -> Path:
    return data_dir / "logs" / NAME


class LogFile(RotatingFileHandler):
    """A log that cannot be written is done without: it must never be the reason for which something else fails."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__(path, maxBytes=LARGEST_BYTES, backupCount=OLDER, encoding="utf-8", delay=True)
        self.setFormatter(AsJson())

    def _open(self) -> io.TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", errors="replace", opener=private)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the library's name
        """A full disk is told on stderr by those whose data is at stake."""


class AsJson(logging.Formatter):
    """One object per entry; a traceback is a field of it, so that an entry is a line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "source": record.name,
            "message": one_line(record.getMessage()),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def lines_from_the_end(path: Path) -> Iterator[str]:
    """All lines, the newest first: of the log, and then of the files that are full. No more is read than is asked for."""
    for each in _files(path):
        try:
            with open(each, "rb") as file:
                yield from _reversed_lines(file)
        except FileNotFoundError:
            continue


def _reversed_lines(file: io.BufferedReader) -> Iterator[str]:
    at = file.seek(0, os.SEEK_END)
    rest = b""
    while at > 0:
        size = min(BLOCK_BYTES, at)
        at -= size
        file.seek(at)
        first, *lines = (file.read(size) + rest).split(b"\n")
        for line in reversed(lines):
            if line:
                yield line.decode("utf-8", "replace")
        rest = first
    if rest:
        yield rest.decode("utf-8", "replace")


def follow(path: Path, begins: tuple[int, int]) -> Iterator[str]:
    """Lines that are written from now on, for ever; `begins` is inode and size of the log when what stands before was read.

    A log that was put aside is read to its end before the new one is begun."""
    inode, at = begins
    while True:
        try:
            with open(_where(path, inode), "rb") as file:
                found = os.fstat(file.fileno())
                file.seek(at if found.st_ino == inode and found.st_size >= at else 0)
                inode = found.st_ino
                rest = b""
                while True:
                    # Looked at before the read: what is written until it was put aside is read as well.
                    is_put_aside = end_of(path)[0] not in (0, inode)
                    *lines, rest = (rest + file.read()).split(b"\n")
                    yield from (line.decode("utf-8", "replace") for line in lines if line)
                    if not lines and is_put_aside:
                        break
                    if not lines:
                        time.sleep(LOOK_S)
        except FileNotFoundError:
            time.sleep(LOOK_S)
        inode, at = 0, 0


def _where(path: Path, inode: int) -> Path:
    """The file that was the log when it had this inode, wherever it is called by now; else the log."""
    return next((each for each in _files(path) if inode and end_of(each)[0] == inode), path)


def _files(path: Path) -> Iterator[Path]:
    """The log and those that are full, the newest first."""
    yield path
    yield from (path.with_name(f"{path.name}.{n}") for n in range(1, OLDER + 1))


def end_of(path: Path) -> tuple[int, int]:
    """Inode and size, zeros where there is no log yet."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_ino, found.st_size
