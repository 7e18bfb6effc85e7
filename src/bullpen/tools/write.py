"""Create a file, or replace the whole content of one."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.files import texts
from bullpen.files.diff import Diff
from bullpen.tools import changing
from bullpen.tools.base import Outcome, ToolContext, tool

DESCRIPTION = """\
Create a file with the given content, or replace the whole content of one. Missing directories are made.

A file that exists must have been read with view in this session, and be unchanged since. To change a part of a file \
prefer edit. Line ends and byte order mark of an existing file are kept. The user sees the change and may refuse it."""


class WriteParams(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    content: Annotated[str, Meta(description="The whole content.")]


@tool("write", DESCRIPTION)
async def write(params: WriteParams, ctx: ToolContext) -> Outcome:
    text = await texts.load(ctx.resolve(params.file_path))
    await texts.check_read(text, ctx.files)
    after = texts.in_the_style_of(text.content, params.content)
    if text.exists and after == text.content:
        raise ToolFailed(f"{text.path} already has this content; nothing was written")
    return await changing.change(
        ctx,
        text,
        after,
        asking="Overwrite file" if text.exists else "Create file",
        done="Replaced" if text.exists else "Created",
        metadata=_metadata,
    )


def _metadata(change: Diff) -> dict[str, Any]:
    return {"diff": change.text, "additions": change.additions, "removals": change.removals}
