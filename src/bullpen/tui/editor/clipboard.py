"""The clipboard of this machine's desktop, read by whichever program there is for that. Over SSH there is none, and that is said."""

from __future__ import annotations

import asyncio
import shutil

from bullpen.errors import BadRequest
from bullpen.schema.media import image_type
from bullpen.tui.editor.attachments import MAX_BYTES, Chip, image_chip

Reader = tuple[str, ...]

IMAGE_READERS: tuple[Reader, ...] = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
TEXT_READERS: tuple[Reader, ...] = (
    ("wl-paste", "--no-newline", "--type", "text"),
    ("xclip", "-selection", "clipboard", "-out"),
    ("pbpaste",),
)

PATIENCE_S = 3.0


async def read(own: str, name: str) -> list[Chip] | str:
    """An image, under that name, else text; `own` is what was copied on the screen itself. Raises `BadRequest` when there is nothing
    to be had."""
    for reader in IMAGE_READERS:
        content = await _output(reader)
        if image_type(content):
            return [image_chip(name, content)]
    for reader in TEXT_READERS:
        if content := await _output(reader):
            return content.decode("utf-8", "replace")
    if own:
        return own
    if any(shutil.which(reader[0]) for reader in (*IMAGE_READERS, *TEXT_READERS)):
        raise BadRequest("the clipboard is empty")
    raise BadRequest(
        "no program here reads the clipboard (wl-paste, xclip, pngpaste); paste with your terminal's own key, or drop an image's file"
    )


async def _output(reader: Reader) -> bytes:
    """What a program writes, or nothing where there is none or it has nothing to say."""
    program = shutil.which(reader[0])
    if program is None:
        return b""
    process = await asyncio.create_subprocess_exec(
        program,
        *reader[1:],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=MAX_BYTES * 2,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            content = await process.stdout.read(MAX_BYTES + 1)
    except TimeoutError:
        content = b""
    if process.returncode is None:
        process.kill()
    await process.wait()
    return content
