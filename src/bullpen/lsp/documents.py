"""The documents that a server has been given, each with the version it was last told."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from bullpen.system import files, paths

MAX_OPEN = 200
"""Documents that a server keeps in memory for us. The one that was not touched for longest is closed first."""

CREATED, CHANGED, DELETED = 1, 2, 3
"""How the protocol calls what became of a file."""


class Document:
    def __init__(self, uri: str, text: str) -> None:
        self.uri = uri
        self.text = text
        self.version = 1


class Voice(Protocol):
    """Whoever passes notifications on to the server."""

    @property
    def wants_saves(self) -> bool: ...

    def notify(self, method: str, params: Any) -> None: ...


class Documents:
    """What is open at one server."""

    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        self._open: dict[str, Document] = {}

    def get(self, uri: str) -> Document | None:
        return self._open.get(uri)

    def version(self, uri: str) -> int:
        """The version that the server was last told; 0 of what is not open."""
        document = self._open.get(uri)
        return document.version if document is not None else 0

    def uris(self) -> list[str]:
        return list(self._open)

    def is_current(self, uri: str, version: Any) -> bool:
        """Whether something said about a version is about the present one; without a version it is taken to be."""
        document = self._open.get(uri)
        return document is None or not isinstance(version, int) or version >= document.version

    def tell(self, uri: str, language: str, text: str) -> Document:
        """Give the server a file's present text, unless it has it."""
        document = self._open.pop(uri, None)
        if document is None:
            document = Document(uri, text)
            self._voice.notify(
                "textDocument/didOpen",
                {"textDocument": {"uri": uri, "languageId": language, "version": 1, "text": text}},
            )
            self._make_room()
        elif document.text != text:
            document.text = text
            document.version += 1
            self._voice.notify(
                "textDocument/didChange",
                {
                    "textDocument": {"uri": uri, "version": document.version},
                    "contentChanges": [{"text": text}],
                },
            )
            if self._voice.wants_saves:
                self._voice.notify("textDocument/didSave", {"textDocument": {"uri": uri}, "text": text})
        self._open[uri] = document
        return document

    def close(self, uri: str) -> None:
        if self._open.pop(uri, None) is not None:
            self._voice.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def announce(self, changes: list[tuple[str, int]]) -> None:
        """Files that were made, changed or removed on the disk."""
        if changes:
            listed = [{"uri": uri, "type": kind} for uri, kind in changes]
            self._voice.notify("workspace/didChangeWatchedFiles", {"changes": listed})

    def _make_room(self) -> None:
        while len(self._open) >= MAX_OPEN:
            self.close(next(iter(self._open)))


def uri_of(path: Path) -> str:
    return path.as_uri()


def path_of(uri: Any) -> Path | None:
    """The file that a server means; None for what is no file."""
    if not isinstance(uri, str):
        return None
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path, errors="surrogateescape")
    return Path(path) if parts.scheme == "file" and path.startswith("/") and "\0" not in path else None


def read_text(path: Path, limit_bytes: int) -> str | None:
    """A file's text as servers read it, without a byte order mark; None for what is no text, too large, or not there."""
    try:
        content, _ = files.read_file(paths.real(path), limit_bytes=limit_bytes)
        return content.decode("utf-8").removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError):
        return None
