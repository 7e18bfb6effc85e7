"""Get a file of the web into the workspace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, BinaryIO

import anyio
from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.net import urls
from bullpen.net.exchange import Limits, Request
from bullpen.system import files, paths
from bullpen.system.files import Stamp
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.going_out import Way

MAX_BYTES = 100 * 1024 * 1024
MAX_RECORDED_BYTES = 1024 * 1024
"""Of a text that large both versions are kept; larger ones are data."""

DEFAULT_TIMEOUT_S = 300
MAX_TIMEOUT_S = 600

DESCRIPTION = """\
Get a file from a web address and put it at a path. Missing directories are made; a file that is there is replaced.

Only http and https, and only the public internet. The file appears when it is whole, or not at all. The user sees the \
address and the path and may refuse them; never put content of files or keys into an address. To read a page use fetch."""


class DownloadParams(Struct, frozen=True):
    url: Annotated[str, Meta(description="The address, with https:// or http://.")]
    file_path: Annotated[str, Meta(description="Where to put it, absolute or relative to the workspace.")]
    timeout: Annotated[
        int, Meta(description=f"Seconds for all of it, at most {MAX_TIMEOUT_S}. Default {DEFAULT_TIMEOUT_S}.")
    ] = 0


@tool("download", DESCRIPTION, parallel=True)
async def download(params: DownloadParams, ctx: ToolContext) -> Outcome:
    if params.timeout < 0:
        raise ToolFailed("timeout cannot be negative")
    timeout_s = min(params.timeout, MAX_TIMEOUT_S) or DEFAULT_TIMEOUT_S
    max_bytes = ctx.limits.get("download", {}).get("max_bytes", 0) or MAX_BYTES
    url = urls.parse(params.url)
    path = ctx.resolve(params.file_path)
    real = await anyio.to_thread.run_sync(paths.real, path)
    stamp, before = await anyio.to_thread.run_sync(_look, path, real)
    way = Way(
        ctx,
        "download",
        f"Download to {path} from",
        {"url": str(url), "file_path": str(path), "timeout": timeout_s},
        path=real.parent,
        paths=(real,),
        note=await _note(path, stamp, ctx),
    )
    await way.ask(url)
    with await anyio.to_thread.run_sync(_open_beside, path, real) as file:

        async def take(piece: bytes) -> None:
            await anyio.to_thread.run_sync(_write, path, file, piece)

        reply = await ctx.net.fetch(
            Request(url=url), take, limits=Limits(time_s=timeout_s, max_bytes=max_bytes), moved=way.moved
        )
        # From here on it is a matter of milliseconds, and half of it would be none.
        with anyio.CancelScope(shield=True):
            after = await anyio.to_thread.run_sync(_put, path, real, file, stamp, before)
            replaced = _text(before or b"") if stamp is None or before is not None else None
            if after is not None and replaced is not None:
                await ctx.files.record_change(path, replaced, after)
    kind = reply.content_type or "unknown"
    return Outcome(
        content=f"Downloaded {reply.size} bytes to {path} (content type: {kind}).",
        metadata={"url": str(reply.url), "file_path": str(path), "bytes": reply.size, "content_type": kind},
    )


def _look(path: Path, real: Path) -> tuple[Stamp | None, bytes | None]:
    """The state of what is there, and its content where that can be kept as a text."""
    if os.path.isdir(real):
        raise ToolFailed(f"{path} is a directory; name the file too")
    try:
        stamp = files.stamp_at(real)
        if stamp is None or stamp.size > MAX_RECORDED_BYTES:
            return stamp, None
        content, stamp = files.read_file(real, limit_bytes=MAX_RECORDED_BYTES)
    except OSError as exc:
        raise ToolFailed(f"{path} cannot be replaced: {exc.strerror}") from exc
    return stamp, content


async def _note(path: Path, stamp: Stamp | None, ctx: ToolContext) -> str:
    """What the person has to know of a file that is there already."""
    if stamp is None:
        return ""
    read_at = await ctx.files.read_at(path)
    if read_at is None:
        return "It replaces a file that was not read in this session"
    return "It replaces a file" + (
        " that was changed since it was read" if stamp.modified_at > read_at else ""
    )


def _open_beside(path: Path, real: Path) -> BinaryIO:
    """A file without a name, on the same disk: whatever happens, nothing is left of it."""
    near = next(folder for folder in real.parents if os.path.isdir(folder))
    try:
        return files.open_nameless(near)
    except OSError as exc:
        raise ToolFailed(f"nothing can be written in {near}: {exc.strerror}") from exc


def _write(path: Path, file: BinaryIO, piece: bytes) -> None:
    try:
        file.write(piece)
    except OSError as exc:
        raise ToolFailed(f"{path} cannot be written: {exc.strerror}") from exc


def _put(path: Path, real: Path, file: BinaryIO, stamp: Stamp | None, before: bytes | None) -> str | None:
    """Give the whole file its name; its text where that can be kept."""
    try:
        files.replace_file(real, file, expected=stamp, before=before)
        if file.tell() > MAX_RECORDED_BYTES:
            return None
        file.seek(0)
        return _text(file.read())
    except files.FileChanged as exc:
        raise ToolFailed(f"{path} was changed by somebody else meanwhile and has been left alone") from exc
    except OSError as exc:
        raise ToolFailed(f"cannot write {path}: {exc.strerror}") from exc


def _text(content: bytes) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None
