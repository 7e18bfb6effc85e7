"""What a command line of `bullpen run` asks for: the prompt from its sources, the files, and what holds for this run."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

import click

from bullpen.config.spans import seconds
from bullpen.schema.api import Attachment
from bullpen.schema.media import media_type

OnAsk = Literal["ask", "allow", "deny", "fail", "wait"]

LARGEST_FILE_BYTES = 10 * 1024 * 1024
LARGEST_SUM_BYTES = 40 * 1024 * 1024
"""A request may have 64 MiB, and in JSON a file is a third longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the command line asked for."""

    prompt: str
    piped: str = ""
    attachments: tuple[Attachment, ...] = ()
    session: str = ""
    go_on: bool = False
    model: str = ""
    effort: str = ""
    budget: float = 0
    tools: tuple[str, ...] = ()
    instructions: str = ""
    steps: int = 0
    on_ask: OnAsk = "deny"
    timeout_s: float | None = None
    detach: bool = False
    attach: str = ""
    schema: Any = None
    as_json: bool = False
    quiet: bool = False


def gather(source: TextIO) -> str | None:
    """What is piped in, exactly; None when nothing is. Bytes that are no text become signs that show it."""
    try:
        mode = os.fstat(source.fileno()).st_mode
    except (OSError, ValueError):
        return None
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
        return None
    if stat.S_ISSOCK(mode) and not select.select([source], [], [], 0)[0]:
        # Some programs start their children with a socket that never says anything.
        return None
    return source.buffer.read().decode("utf-8", "replace") or None


def read_text(path: str, option: str) -> str:
    """A file that is text. Raises `click.BadParameter`."""
    try:
        return _read(path, option).decode()
    except UnicodeDecodeError as exc:
        raise _wrong(option, f"{path} is no text in UTF-8") from exc


def read_files(paths: Sequence[str]) -> tuple[Attachment, ...]:
    """Files to be shown to the model: text, pictures, PDF. Raises `click.BadParameter`."""
    found = []
    for path in paths:
        content = _read(path, "--file")
        mime_type = media_type(content)
        if not mime_type:
            raise _wrong(
                "--file", f"{path} is neither text in UTF-8 nor a picture (PNG, JPEG, GIF, WebP) nor a PDF"
            )
        full = Path(path).absolute()
        found.append(
            Attachment(file_path=str(full), file_name=full.name, mime_type=mime_type, content=content)
        )
    if sum(len(file.content) for file in found) > LARGEST_SUM_BYTES:
        raise _wrong("--file", f"together the files have more than {LARGEST_SUM_BYTES >> 20} MiB")
    return tuple(found)


def span_of(text: str | None, option: str) -> float | None:
    """A duration such as 90, 90s, 5m or 1h30m. Raises `click.BadParameter`."""
    if text is None:
        return None
    try:
        found = seconds(text)
    except ValueError as exc:
        raise _wrong(option, str(exc)) from exc
    if not found:
        raise _wrong(option, "must be more than nothing")
    return found


def _read(path: str, option: str) -> bytes:
    try:
        with open(path, "rb") as file:
            if stat.S_ISDIR(os.fstat(file.fileno()).st_mode):
                raise IsADirectoryError(21, "it is a directory")
            content = file.read(LARGEST_FILE_BYTES + 1)
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or str(exc)
        raise _wrong(option, f"{path} cannot be read: {why}") from exc
    if len(content) > LARGEST_FILE_BYTES:
        raise _wrong(option, f"{path} has more than {LARGEST_FILE_BYTES >> 20} MiB")
    return content


def _wrong(option: str, why: str) -> click.BadParameter:
    return click.BadParameter(why, ctx=click.get_current_context(silent=True), param_hint=option)
