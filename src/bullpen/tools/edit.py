"""Replace a piece of a file by another."""

from __future__ import annotations

from typing import Annotated, Any

import anyio
from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.files import matching, texts
from bullpen.files.diff import Diff
from bullpen.files.texts import Text
from bullpen.tools import changing
from bullpen.tools.base import Outcome, ToolContext, tool

DESCRIPTION = """\
Replace a piece of a file by another. The file must have been read with view in this session, and be unchanged since.

`old_string` is the text as it stands in the file, without the line numbers of view, and long enough to be there only once: \
take two or three lines around the change with it. With `replace_all` every place is changed. An empty `new_string` deletes. \
An empty `old_string` makes a new file of `new_string`, with its directories.

Where only whitespace differs, the piece is found all the same and the new text is indented as the file is. When it is not \
found, the answer shows what is nearest. Line ends are kept. For several changes of one file use multiedit. The user sees \
the change and may refuse it."""


class EditParams(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    old_string: Annotated[str, Meta(description="The text to replace; empty to make a new file.")]
    new_string: Annotated[str, Meta(description="What is to stand there; empty to delete.")]
    replace_all: Annotated[bool, Meta(description="Change every place. Default false.")] = False


@tool("edit", DESCRIPTION)
async def edit(params: EditParams, ctx: ToolContext) -> Outcome:
    text = await texts.load(ctx.resolve(params.file_path))
    if not params.old_string:
        after, note = made(text, params.new_string), ""
    else:
        await check_can_change(text, ctx)
        after, note = await anyio.to_thread.run_sync(
            apply, text.content, params.old_string, params.new_string, params.replace_all
        )
    return await changing.change(
        ctx,
        text,
        after,
        asking="Change file" if text.exists else "Create file",
        done="Changed" if text.exists else "Created",
        metadata=lambda change: metadata_of(change, text, after),
        notes=note,
    )


def made(text: Text, content: str) -> str:
    """The content of a new file. Raises `ToolFailed` where there is one."""
    if text.exists:
        raise ToolFailed(
            f"{text.path} exists already; give old_string to change a part of it, or use write to replace all of it"
        )
    return content


async def check_can_change(text: Text, ctx: ToolContext) -> None:
    if not text.exists:
        raise ToolFailed(f"there is no file {text.path}; an empty old_string makes one, and so does write")
    await texts.check_read(text, ctx.files)


def apply(content: str, old: str, new: str, replace_all: bool) -> tuple[str, str]:
    """The content with one edit made, and a note of what had to be overlooked. Raises `ToolFailed`."""
    if old == new:
        raise ToolFailed("old_string and new_string are the same; nothing was changed")
    plain = texts.plain(content)
    found = matching.find(plain, texts.plain(old), texts.plain(new), replace_all=replace_all)
    after = texts.replaced(content, found.spans)
    if after == content:
        raise ToolFailed("the file has this text already; nothing was changed")
    return after, found.note


def metadata_of(change: Diff, text: Text, after: str) -> dict[str, Any]:
    return {
        "additions": change.additions,
        "removals": change.removals,
        "old_content": text.content,
        "new_content": after,
    }
