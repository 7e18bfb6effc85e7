"""Read a text file by sections, or show an image."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Annotated, Any

import anyio
from msgspec import Meta, Struct

from bullpen.config import skills
from bullpen.errors import ToolFailed
from bullpen.files.sections import MAX_LINE_BYTES, Section, read_section
from bullpen.schema.media import image_type
from bullpen.system import files, paths
from bullpen.tools.base import Outcome, Reach, ToolContext, tool

DEFAULT_LINES = 2000
MAX_SECTION_BYTES = 200 * 1024

MAX_SKILL_BYTES = 1024 * 1024
"""A skill is read whole, so that none of its instructions are missed; this only stops an accident."""

MAX_IMAGE_BYTES = 3_700_000
"""Providers take images of up to 5 MB in base64."""

DAMAGED = "Some bytes are no UTF-8 and are shown as \ufffd."

MAX_SUGGESTIONS = 3
MAX_NEIGHBOURS = 10_000
IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".gif", ".webp"})

DESCRIPTION = f"""\
Read a file of the workspace. Each line comes with its number, which is not part of the file.

Reads {DEFAULT_LINES} lines from the beginning unless told otherwise; a note at the end gives the offset to go on from. A line \
past {MAX_LINE_BYTES} bytes is cut. Images (PNG, JPEG, GIF, WebP) are shown when the model can see them. A file has to be \
read before it can be changed. Directories are for ls; files outside the workspace are shown after the user agrees."""


class ViewParams(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    offset: Annotated[int, Meta(description="How many lines to skip. Default 0.")] = 0
    limit: Annotated[int, Meta(description=f"How many lines to read. Default {DEFAULT_LINES}.")] = 0


@tool("view", DESCRIPTION, effects=False, task=True)
async def view(params: ViewParams, ctx: ToolContext) -> Outcome:
    if params.offset < 0 or params.limit < 0:
        raise ToolFailed("offset and limit cannot be negative")
    path = ctx.resolve(params.file_path)
    real = await anyio.to_thread.run_sync(paths.real, path)
    is_skill = any(real.is_relative_to(paths.real(folder)) for folder in ctx.skill_dirs)
    is_free = is_skill or ctx.is_inside(real)
    await ctx.permit(
        "read",
        description=f"Read file{'' if is_free else ' outside the workspace'}: {real}",
        params={"file_path": str(path), "offset": params.offset, "limit": params.limit},
        path=real.parent,
        reach=Reach(paths=(real,), is_read=is_free),
    )
    try:
        if path.suffix.lower() in IMAGE_SUFFIXES:
            return await _view_image(path, real, ctx)
        section = await anyio.to_thread.run_sync(_read, real, params, is_skill, abandon_on_cancel=True)
    except OSError as exc:
        raise ToolFailed(await anyio.to_thread.run_sync(_explain, path, real, exc)) from exc
    await ctx.files.mark_read(path)
    metadata: dict[str, Any] = {"file_path": str(path), "content": section.text}
    if is_skill:
        metadata |= await anyio.to_thread.run_sync(_skill_facts, real)
    content = _render(section, params.offset) + await ctx.lsp.after_view(path)
    return Outcome(content=content, metadata=metadata)


def _read(real: Path, params: ViewParams, is_skill: bool) -> Section:
    limit = params.limit or (None if is_skill else DEFAULT_LINES)
    room = MAX_SKILL_BYTES if is_skill else MAX_SECTION_BYTES
    return read_section(real, offset=params.offset, limit=limit, room=room)


def _render(section: Section, offset: int) -> str:
    lines = section.text.split("\n") if section.lines else []
    numbered = "\n".join(f"{number:6}|{line}" for number, line in enumerate(lines, offset + 1))
    after = offset + section.lines
    if section.has_more:
        numbered += f"\n\n(There is more; go on with offset {after}.)"
    elif not section.lines:
        numbered = "(The file is empty.)" if offset == 0 else f"(The file has no line after {offset}.)"
    if section.is_damaged:
        numbered += f"\n\n({DAMAGED})"
    return f"<file>\n{numbered}\n</file>"


def _explain(path: Path, real: Path, exc: OSError) -> str:
    """What is wrong with the path, with a hint where there is one."""
    if isinstance(exc, files.NotRegular):
        return f"{path} is a directory; use ls" if os.path.isdir(real) else f"{path} is not a regular file"
    if exc.errno == errno.EFBIG:
        return f"{path} is an image of more than {MAX_IMAGE_BYTES / 1e6:g} MB, which models do not take; make a smaller one"
    if not isinstance(exc, FileNotFoundError):
        return f"cannot read {path}: {exc.strerror}"
    similar = _similar_names(path, real)
    hint = "\n\nDid you mean one of these?\n" + "\n".join(similar) if similar else ""
    return f"file not found: {path}{hint}"


def _similar_names(path: Path, real: Path) -> list[str]:
    wanted = path.name.lower()
    with contextlib.suppress(OSError), files.open_directory(real.parent) as parent:
        names = [name for name, _ in files.list_directory(parent, most=MAX_NEIGHBOURS)]
        near = [name for name in names if name.lower() in wanted or wanted in name.lower()]
        return [str(path.parent / name) for name in near[:MAX_SUGGESTIONS]]
    return []


async def _view_image(path: Path, real: Path, ctx: ToolContext) -> Outcome:
    if not ctx.supports_images:
        raise ToolFailed(f"{path} is an image, and this model cannot see images")

    def read() -> bytes:
        return files.read_file(real, limit_bytes=MAX_IMAGE_BYTES)[0]

    content = await anyio.to_thread.run_sync(read)
    mime_type = image_type(content)
    if not mime_type:
        raise ToolFailed(f"{path} has the name of an image, but not the content of one")
    await ctx.files.mark_read(path)
    return Outcome(
        content=f"Image {path.name} ({len(content)} bytes)",
        data=content,
        mime_type=mime_type,
        metadata={"file_path": str(path), "content": ""},
    )


def _skill_facts(real: Path) -> dict[str, str]:
    if real.name != skills.FILE_NAME:
        return {}
    skill = skills.load(real, source="user")
    return {"resource_type": "skill", "resource_name": skill.name, "resource_description": skill.description}
