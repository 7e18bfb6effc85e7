"""Makes text of what came from the web: the right characters, HTML as Markdown, JSON laid out.

What is cut is cut at the end, after it was made readable, and between characters.
"""

from __future__ import annotations

import codecs
import re
import sys
from pathlib import Path
from typing import Literal

import anyio
import msgspec

from bullpen.errors import ToolFailed
from bullpen.net import converter
from bullpen.system.processes import Processes

Form = Literal["text", "markdown", "html"]

CONVERT_S = 30.0
"""For a busy machine: the converter's own limit counts only the time it works."""

MAX_JSON_BYTES = 2 * 1024 * 1024
LOOK_BYTES = 2048

_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_LATIN = frozenset({"ascii", "us-ascii", "iso8859-1", "iso-8859-1", "latin-1", "latin1"})
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "utf-7"})
"""Codecs of ours that no page is written in; some take their time for what was made for that."""

_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/xhtml", "application/javascript")
_TEXT_SUFFIXES = (
    "+json",
    "+xml",
    "/x-javascript",
    "/ecmascript",
    "/x-sh",
    "/yaml",
    "/x-yaml",
    "/toml",
    "/sql",
)
_BODY = re.compile(r"<body\b[^<>]*>", re.IGNORECASE)


class Pages:
    """Reads pages. HTML is converted by a program of its own, see `converter`."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def read(self, content: bytes, content_type: str, *, form: Form, content_only: bool = False) -> str:
        """The page as text. Raises `ToolFailed` for what is none."""
        kind = _kind(content_type)
        if not _is_text(content, kind):
            raise ToolFailed(
                f"This is {kind or 'a binary file'}, not text; use download to get it as a file."
            )
        text = decode(content, content_type)
        if kind == "application/json" or kind.endswith("+json"):
            return _laid_out(text)
        if "html" not in kind and not (kind in ("", "text/plain") and _looks_like_html(text)):
            return text
        if form == "html":
            return body_of(text)
        return await self._converted(text, form, content_only=content_only)

    async def results(self, content: bytes, content_type: str) -> bytes:
        """What a search engine's page lists, as JSON; an empty list when it cannot be read."""
        return (await self._run(decode(content, content_type), "results", "whole") or "[]").encode()

    async def _converted(self, text: str, form: Form, *, content_only: bool) -> str:
        converted = await self._run(text, form, "content" if content_only else "whole")
        if converted is None:
            return f"(The page could not be converted; this is its source.)\n\n{body_of(text)}"
        return converted.removesuffix("\ufffd").strip()

    async def _run(self, text: str, *arguments: str) -> str | None:
        """What the converter's program makes of it; None when it gave up or was ended."""
        process = await self._processes.start(
            [sys.executable, "-I", str(Path(converter.__file__)), *arguments],
            cwd=Path("/"),
            env={"PYTHONIOENCODING": "utf-8"},
            stdin=text.encode("utf-8", "replace"),
        )
        try:
            with anyio.move_on_after(CONVERT_S):
                await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await process.kill()
        return process.stdout.text() if process.exit_code in (0, converter.WAS_CUT) else None


def decode(content: bytes, content_type: str) -> str:
    """By its mark, by what the server or the page says, by what it looks like; never fails."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(name, "replace")
    said = _CHARSET.search(content_type) or _CHARSET.search(content[:LOOK_BYTES].decode("latin-1"))
    name = _codec(said[1]) if said else ""
    if name:
        return content.decode(name, "replace")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def cut(text: str, limit_bytes: int, advice: str = "") -> tuple[str, bool]:
    """The beginning that fits, with a note of what is missing, and whether something is."""
    whole = text.encode("utf-8", "replace")
    if len(whole) <= limit_bytes:
        return text, False
    kept = whole[:limit_bytes].decode("utf-8", "ignore")
    note = f"(Cut here: {limit_bytes} of {len(whole)} bytes are shown.{advice and ' '}{advice})"
    return f"{kept}\n\n{note}", True


def fenced(text: str, language: str = "") -> str:
    """Within a fence that is longer than any in the text."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def body_of(text: str) -> str:
    """The markup within the body, or all of it."""
    begin = _BODY.search(text)
    end = text.lower().rfind("</body")
    start = begin.end() if begin else 0
    return text[start : end if end > start else None].strip()


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _codec(name: str) -> str:
    """The name of a codec for text; as browsers do, Latin-1 is taken for the larger set that is mostly meant."""
    if name.lower() in _LATIN:
        return "cp1252"
    try:
        b"x".decode(name, "replace")
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return ""
    return "" if found in _NO_CHARSETS else found


def _is_text(content: bytes, kind: str) -> bool:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return True
    if kind and not kind.startswith(_TEXT_TYPES) and not kind.endswith(_TEXT_SUFFIXES):
        # Many servers say this of whatever they do not know.
        return kind == "application/octet-stream" and b"\0" not in content and _is_utf8(content)
    return b"\0" not in content[:LOOK_BYTES]


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _looks_like_html(text: str) -> bool:
    return text[:LOOK_BYTES].lstrip().lower().startswith(("<!doctype html", "<html"))


def _laid_out(text: str) -> str:
    """JSON with its structure to see; what is no JSON, or too much, as it came."""
    if len(text) > MAX_JSON_BYTES:
        return text
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return text
