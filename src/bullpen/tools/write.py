"""Create a file, or replace the whole content of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import anyio
from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.files import diff
from bullpen.system import files, paths
from bullpen.system.files import Stamp
from bullpen.tools.base import Outcome, PermissionDenied, Reach, ToolContext, tool

MAX_BYTES = 10 * 1024 * 1024
"""A text past this is no file that a model writes by hand."""

BOM = "\ufeff"

DESCRIPTION = """\
Create a file with the given content, or replace the whole content of one. Missing directories are made.

A file that exists must have been read with view in this session, and be unchanged since. To change a part of a file \
prefer edit. Line ends and byte order mark of an existing file are kept. The user sees the change and may refuse it."""


class WriteParams(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    content: Annotated[str, Meta(description="The whole content.")]


@tool("write", DESCRIPTION)
async def write(params: WriteParams, ctx: ToolContext) -> Outcome:
    path = ctx.resolve(params.file_path)
    real = await anyio.to_thread.run_sync(paths.real, path)
    before, stamp = await anyio.to_thread.run_sync(_load, path, real)
    if stamp is not None:
        await _check_was_read(path, stamp, ctx)
    after = _in_the_style_of(before, params.content)
    if stamp is not None and after == before:
        raise ToolFailed(f"{path} already has this content; nothing was written")
    change = await anyio.to_thread.run_sync(diff.unified, before, after, _name(path, ctx.root))
    metadata = {"diff": change.text, "additions": change.additions, "removals": change.removals}
    try:
        await ctx.permit(
            "write",
            description=f"{'Create' if stamp is None else 'Overwrite'} file {path}",
            params=_shown(path, before, after),
            path=ctx.root if ctx.is_inside(real) else real.parent,
            reach=Reach(paths=(real,)),
        )
    except PermissionDenied as refusal:
        return Outcome(content=refusal.message, is_error=True, stop_turn=True, metadata=metadata)
    await anyio.to_thread.run_sync(_save, path, real, before, after, stamp)
    await ctx.files.record_change(path, before, after)
    verb = "Created" if stamp is None else "Replaced"
    return Outcome(
        content=f"{verb} {path} (+{change.additions} −{change.removals} lines).", metadata=metadata
    )


def _load(path: Path, real: Path) -> tuple[str, Stamp | None]:
    """The present text, or nothing when there is no such file."""
    if real.is_dir():
        raise ToolFailed(f"{path} is a directory")
    try:
        content, stamp = files.read_file(real, limit_bytes=MAX_BYTES)
        return content.decode("utf-8"), stamp
    except FileNotFoundError:
        return "", None
    except UnicodeDecodeError:
        raise ToolFailed(f"{path} is not UTF-8 text and cannot be replaced by text") from None
    except OSError as exc:
        raise ToolFailed(f"cannot read {path}: {exc.strerror}") from exc


async def _check_was_read(path: Path, stamp: Stamp, ctx: ToolContext) -> None:
    read_at = await ctx.files.read_at(path)
    if read_at is None:
        raise ToolFailed(f"{path} exists and has not been read in this session; view it first")
    if stamp.modified_at > read_at:
        raise ToolFailed(f"{path} was changed by somebody else since it was read; view it again first")


def _in_the_style_of(before: str, content: str) -> str:
    """Line ends and byte order mark stay as they are in the file, unless the content brings its own."""
    if "\r\n" in before and before.count("\n") == before.count("\r\n") and "\r" not in content:
        content = content.replace("\n", "\r\n")
    if before.startswith(BOM) and not content.startswith(BOM):
        content = BOM + content
    return content


def _shown(path: Path, before: str, after: str) -> dict[str, Any]:
    shown = {"file_path": str(path), "old_content": before, "new_content": after}
    return {name: text for name, text in shown.items() if text}


def _save(path: Path, real: Path, before: str, after: str, expected: Stamp | None) -> None:
    try:
        files.replace_file(real, after.encode(), expected=expected, before=before.encode())
    except files.FileChanged as exc:
        raise ToolFailed(
            f"{path} was changed by somebody else just now and has been left alone; view it again first"
        ) from exc
    except OSError as exc:
        raise ToolFailed(f"cannot write {path}: {exc.strerror}") from exc


def _name(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
