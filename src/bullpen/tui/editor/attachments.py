"""What goes with a prompt: long pasted text, images of this machine, files that the text mentions. And what a paste means."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from bullpen.errors import BadRequest
from bullpen.present.inert import inert
from bullpen.schema.api import Attachment
from bullpen.schema.media import image_type

LONG_LINES = 10
LONG_COLUMNS = 1000
"""More than this is not read in an editor of a few rows."""

MAX_BYTES = 5_000_000

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})

Kind = Literal["text", "image", "mention"]


@dataclass(frozen=True)
class Chip:
    """One attachment as it is shown. A mention's content is fetched when it is sent."""

    kind: Kind
    name: str
    attachment: Attachment | None = None

    @property
    def size(self) -> str:
        if self.attachment is None:
            return ""
        if self.kind == "text":
            lines = self.attachment.content.count(b"\n") + 1
            return f"{lines} lines"
        return f"{max(len(self.attachment.content) // 1000, 1)} kB"


def normalised(pasted: str) -> str:
    """Pasted text with line feeds alone, whatever the terminal made of them, and with nothing that a terminal would obey."""
    return typable(pasted.replace("\r\n", "\n").replace("\r", "\n"))


def typable(text: str) -> str:
    """Text that can stand in the editor: inert, tabs kept."""
    return "\t".join(inert(piece) for piece in text.split("\t"))


def is_long(text: str) -> bool:
    """Whether pasted text is better shown as an attachment."""
    lines = text.rstrip("\n").split("\n")
    return len(lines) > LONG_LINES or any(len(line) > LONG_COLUMNS for line in lines)


def pasted_text(text: str, taken: Iterable[str]) -> Chip:
    """Long text as an attachment, under the first name that is free."""
    names = set(taken)
    number = next(n for n in range(1, len(names) + 2) if f"paste_{n}.txt" not in names)
    name = f"paste_{number}.txt"
    return Chip(
        "text",
        name,
        Attachment(file_path=name, file_name=name, mime_type="text/plain", content=text.encode()),
    )


def image_paths(text: str) -> list[Path]:
    """The images of this machine that a paste names, as terminals write dropped files: quoted, escaped or as `file://`. Nothing
    when anything else stands there."""
    if not text.strip() or len(text) > 20_000:
        return []
    try:
        words = [line for line in text.split("\n") if line] if "\n" in text else shlex.split(text)
    except ValueError:
        return []
    paths = [_path(word) for word in (words or ())]
    if not all(path and path.suffix.lower() in IMAGE_SUFFIXES and path.is_file() for path in paths):
        # A path with blanks may also come as it is.
        whole = _path(text.strip())
        return [whole] if whole and whole.suffix.lower() in IMAGE_SUFFIXES and whole.is_file() else []
    return [path for path in paths if path]


def _path(word: str) -> Path | None:
    word = word.strip().strip("'\"")
    if word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    path = Path(os.path.expanduser(word))
    return path if path.is_absolute() else None


async def read_images(paths: Iterable[Path]) -> list[Chip]:
    """Images of this machine. Raises `BadRequest` with what is wrong with one."""
    return [await asyncio.to_thread(_read_image, path) for path in paths]


def _read_image(path: Path) -> Chip:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as exc:
        raise BadRequest(f"{path} cannot be read: {exc.strerror}") from exc
    return image_chip(path.name, content)


def image_chip(name: str, content: bytes) -> Chip:
    """Raises `BadRequest` for what is too large or no image."""
    if len(content) > MAX_BYTES:
        raise BadRequest(f"{name} has more than {MAX_BYTES // 1_000_000} MB; make it smaller first")
    mime_type = image_type(content)
    if not mime_type:
        raise BadRequest(f"{name} has not the content of an image that models know (PNG, JPEG, GIF, WebP)")
    return Chip(
        "image", name, Attachment(file_path=name, file_name=name, mime_type=mime_type, content=content)
    )
