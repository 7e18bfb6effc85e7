"""Sections of a text file, however large it is and whatever stands in it; and what an image says of itself."""

from __future__ import annotations

import codecs
import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from bullpen.errors import ToolFailed
from bullpen.files import texts
from bullpen.system import files

MAX_LINE_BYTES = 2000
"""A longer line is cut."""

MAX_PASSED_BYTES = 256 * 1024 * 1024
"""What is read over on the way to the lines that are wanted."""


class Section(NamedTuple):
    text: str
    lines: int
    has_more: bool
    is_damaged: bool = False
    """Whether bytes were left out that are no UTF-8."""


def read_section(real: Path, *, offset: int, limit: int | None, room: int) -> Section:
    """The lines of a file, given by its real path, behind so many others; at most `limit` lines and `room` bytes. Raises OSError,
    and `ToolFailed` for what is no text."""
    kept: list[bytes] = []
    has_more = False
    with open(files.open_file(real), "rb") as raw:
        file = _as_utf8(raw, real)
        lines = itertools.islice(_lines(file), offset, None)
        for line in itertools.islice(lines, limit):
            room -= len(line)
            if room < 0:
                has_more = True
                break
            kept.append(line)
        has_more = has_more or bool(file.read(1))
    whole = b"\n".join(kept)
    if b"\0" in whole:
        raise ToolFailed(f"{real} is a binary file; look at it with a program, through bash")
    text = whole.decode("utf-8", "replace")
    return Section(text, len(kept), has_more, text.encode() != whole)


def _as_utf8(file: BinaryIO, real: Path) -> BinaryIO:
    """The file without its byte order mark; one in UTF-16 or UTF-32 says so there, and is read as text too."""
    start = file.read(4)
    encoding = texts.encoding_by_mark(start)
    if encoding is None:
        file.seek(len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0)
        return file
    file.seek(0)
    content = file.read(texts.MAX_BYTES + 1)
    if len(content) > texts.MAX_BYTES:
        raise ToolFailed(
            f"{real} is too large for a text in {encoding}; look at it with a program, through bash"
        )
    return io.BytesIO(content.decode(encoding, "replace").removeprefix(texts.BOM).encode())


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines without their ends, each cut at the limit, however long it is. Raises `ToolFailed` far behind the beginning."""
    passed = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        is_cut = len(line) > MAX_LINE_BYTES and not line.endswith(b"\n")
        rest = line
        passed += len(line)
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(1 << 16)
            passed += len(rest)
            if passed > MAX_PASSED_BYTES:
                break
        yield _cut(line) if is_cut else line.rstrip(b"\r\n")
        if passed > MAX_PASSED_BYTES:
            raise ToolFailed(
                f"the lines wanted lie more than {MAX_PASSED_BYTES >> 20} MiB into the file; look at it with a program, through bash"
            )


def _cut(line: bytes) -> bytes:
    """Between characters, never within one."""
    end = MAX_LINE_BYTES
    while end > MAX_LINE_BYTES - 4 and line[end] & 0xC0 == 0x80:
        end -= 1
    return line[:end] + "…".encode()
