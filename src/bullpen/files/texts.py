"""The one way in which a text comes in from a file and goes out to one.

A `Text` is what was read, exactly: byte order mark, line ends and encoding included, with the stamp of the file it came
from. Tools look at its `plain` form (no byte order mark, `\\n` for every line end) and say what to replace there;
`replaced` puts that into the exact text and leaves every other character as it is. `save` writes whole or not at all,
and only over what was read.
"""

from __future__ import annotations

import bisect
import codecs
import os
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import anyio

from bullpen.errors import ToolFailed
from bullpen.system import files, paths
from bullpen.system.files import Stamp

MAX_BYTES = 10 * 1024 * 1024
"""A text past this is no file that a model writes by hand."""

MAX_GUESSED_BYTES = 1024 * 1024
"""Past this the encoding of a text that is not UTF-8 is not looked for: guessing takes time with the size."""

BOM = "\ufeff"

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Encodings that tell themselves by their byte order mark; the longer marks begin with the shorter ones."""


class Records(Protocol):
    """What the session read and wrote."""

    async def read_at(self, path: Path) -> float | None: ...

    async def record_change(self, path: Path, before: str, after: str) -> None: ...


class Span(NamedTuple):
    """A piece of a plain text, and what is to stand there."""

    start: int
    end: int
    text: str


class Text(NamedTuple):
    """A file as it was read. Without a stamp there is no such file."""

    path: Path
    real: Path
    content: str
    stamp: Stamp | None = None
    encoding: str = "utf-8"

    @property
    def exists(self) -> bool:
        return self.stamp is not None


async def load(path: Path) -> Text:
    """The present text, or an empty one when there is no such file. Raises `ToolFailed`."""
    return await anyio.to_thread.run_sync(_load, path)


async def check_read(text: Text, records: Records) -> None:
    """Raises `ToolFailed` unless the session has read the file, and nobody has changed it since."""
    if text.stamp is None:
        return
    read_at = await records.read_at(text.path)
    if read_at is None:
        read_at = await records.read_at(text.real)
    if read_at is None:
        raise ToolFailed(f"{text.path} exists and has not been read in this session; view it first")
    if text.stamp.modified_at > read_at:
        raise ToolFailed(f"{text.path} was changed by somebody else since it was read; view it again first")


async def save(text: Text, after: str, records: Records) -> None:
    """Put a new content in the place of what was read, and record both. Raises `ToolFailed`; the file is then as it was."""
    content = _encoded(text, after)
    # Once the file is changed that is recorded, also when the call is given up meanwhile.
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(_save, text, content)
        await records.record_change(text.path, text.content, after)


def plain(content: str) -> str:
    """The text as tools look at it."""
    return content.removeprefix(BOM).replace("\r\n", "\n")


def encoding_by_mark(start: bytes) -> str | None:
    """The encoding of a text that begins with the byte order mark of UTF-16 or UTF-32."""
    return next((encoding for mark, encoding in _MARKS if start.startswith(mark)), None)


def replaced(content: str, spans: Sequence[Span]) -> str:
    """The exact text with pieces of its plain form replaced. New line ends become those of the place they come to."""
    if BOM not in content[:1] and "\r\n" not in content:
        return _joined(content, spans)
    shift = len(BOM) if content.startswith(BOM) else 0
    ends = _crlf_ends(content, shift)

    def exact(position: int) -> int:
        return position + shift + bisect.bisect_left(ends, position)

    return _joined(
        content,
        [Span(exact(start), exact(end), _with_ends(content, exact(start), new)) for start, end, new in spans],
    )


def in_the_style_of(before: str, content: str) -> str:
    """A whole new content with the line ends and the byte order mark of the old one, unless it brings its own."""
    if "\r\n" in before and before.count("\n") == before.count("\r\n") and "\r" not in content:
        content = content.replace("\n", "\r\n")
    if before.startswith(BOM) and not content.startswith(BOM):
        content = BOM + content
    return content


def _joined(content: str, spans: Iterable[Span]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, new in spans:
        parts += (content[at:start], new)
        at = end
    return "".join([*parts, content[at:]])


def _crlf_ends(content: str, shift: int) -> array[int]:
    """Where in the plain text the line ends are that have two characters in the exact one."""
    ends = array("l")
    at = content.find("\r\n")
    while at >= 0:
        ends.append(at - shift - len(ends))
        at = content.find("\r\n", at + 2)
    return ends


def _with_ends(content: str, at: int, new: str) -> str:
    """The nearest line end counts: that of the line, or of the one before where the text ends without."""
    end = content.find("\n", at)
    if end < 0:
        end = content.rfind("\n", 0, at)
    new = plain(new)
    return new.replace("\n", "\r\n") if end > 0 and content[end - 1] == "\r" else new


def _load(path: Path) -> Text:
    real = paths.real(path)
    if os.path.isdir(real):
        raise ToolFailed(f"{path} is a directory")
    try:
        content, stamp = files.read_file(real, limit_bytes=MAX_BYTES)
    except FileNotFoundError:
        return Text(path, real, "")
    except files.NotRegular:
        raise ToolFailed(f"{path} is not a regular file") from None
    except OSError as exc:
        raise ToolFailed(f"cannot read {path}: {exc.strerror}") from exc
    text, encoding = _decoded(path, content)
    return Text(path, real, text, stamp, encoding)


def _decoded(path: Path, content: bytes) -> tuple[str, str]:
    encoding = encoding_by_mark(content) or "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as exc:
        text, encoding = _guessed(path, content, exc)
    if "\0" in text:
        raise ToolFailed(f"{path} is a binary file; change it with a program, through bash")
    return text, encoding


def _guessed(path: Path, content: bytes, problem: UnicodeDecodeError) -> tuple[str, str]:
    """An older encoding, where the bytes speak for one. What is not certain to come out as it came in is refused."""
    line = content.count(b"\n", 0, problem.start) + 1
    refusal = ToolFailed(f"{path} is not UTF-8 text (line {line}); change it with a program, through bash")
    if b"\0" in content or len(content) > MAX_GUESSED_BYTES or _is_damaged_utf8(content):
        raise refusal from None
    from charset_normalizer import from_bytes

    best = from_bytes(content).best()
    if best is None:
        raise refusal from None
    try:
        text = content.decode(best.encoding)
        is_same = text.encode(best.encoding) == content
    except (UnicodeError, LookupError):
        raise refusal from None
    if not is_same:
        raise refusal from None
    return text, best.encoding


def _is_damaged_utf8(content: bytes) -> bool:
    """Whether it was UTF-8 once: most of what is not ASCII still is."""
    read = content.decode("utf-8", "surrogateescape")
    broken = sum("\udc80" <= character <= "\udcff" for character in read)
    whole = sum(character > "\x7f" for character in read) - broken
    return whole > broken


def _encoded(text: Text, after: str) -> bytes:
    try:
        return after.encode(text.encoding)
    except UnicodeEncodeError as exc:
        what = after[exc.start : exc.end][:10]
        if text.encoding == "utf-8":
            raise ToolFailed(f"the text holds half a character ({what!r}), which no file can") from exc
        raise ToolFailed(
            f"{text.path} is written in {text.encoding}, which has no {what!r}; use other characters, "
            "or turn the file into UTF-8 first, through bash"
        ) from exc


def _save(text: Text, content: bytes) -> None:
    try:
        before = text.content.encode(text.encoding)
        files.replace_file(text.real, content, expected=text.stamp, before=before)
    except files.FileChanged as exc:
        raise ToolFailed(
            f"{text.path} was changed by somebody else just now and has been left alone; view it again first"
        ) from exc
    except OSError as exc:
        raise ToolFailed(f"cannot write {text.path}: {exc.strerror}") from exc
