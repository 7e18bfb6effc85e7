"""Make several changes of one file at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import anyio
from msgspec import Meta, Struct, to_builtins

from bullpen.errors import ToolFailed
from bullpen.files import texts
from bullpen.tools import changing
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.edit import apply, check_can_change, made, metadata_of

MAX_EDITS = 200
"""More than this is a rewrite, for which there is write."""

DESCRIPTION = """\
Make several changes of one file, one after the other; each sees what those before it made. The rules of edit hold for each. \
Only the first may have an empty `old_string`, which makes a new file.

An edit that cannot be made is left out and the others are made: the answer says which, and why. Send only those again. \
When none can be made, nothing is changed. The user sees one change with all of them and may refuse it."""


class Edit(Struct, frozen=True):
    old_string: Annotated[str, Meta(description="The text to replace.")]
    new_string: Annotated[str, Meta(description="What is to stand there; empty to delete.")]
    replace_all: Annotated[bool, Meta(description="Change every place. Default false.")] = False


class MultieditParams(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    edits: Annotated[list[Edit], Meta(description="The changes, in order.")]


class _Failure(NamedTuple):
    number: int
    reason: str
    edit: Edit


class _Result(NamedTuple):
    content: str
    failures: list[_Failure]
    notes: list[str]


@tool("multiedit", DESCRIPTION)
async def multiedit(params: MultieditParams, ctx: ToolContext) -> Outcome:
    if not 0 < len(params.edits) <= MAX_EDITS:
        raise ToolFailed(f"give between 1 and {MAX_EDITS} edits")
    text = await texts.load(ctx.resolve(params.file_path))
    makes_new = not params.edits[0].old_string
    if makes_new:
        start = made(text, params.edits[0].new_string)
    else:
        await check_can_change(text, ctx)
        start = text.content
    result = await anyio.to_thread.run_sync(_apply_all, start, params.edits, int(makes_new))
    applied = len(params.edits) - len(result.failures)
    if not applied:
        raise ToolFailed("none of the edits could be made; nothing was changed\n" + _told(result.failures))
    if result.content == text.content:
        raise ToolFailed("the edits undo each other; nothing was changed")
    return await changing.change(
        ctx,
        text,
        result.content,
        asking="Change file" if text.exists else "Create file",
        done=f"Made {applied} of {len(params.edits)} edits in",
        metadata=lambda change: {
            **metadata_of(change, text, result.content),
            "edits_applied": applied,
            **_failed(result.failures),
        },
        notes="\n".join([*result.notes, *([_told(result.failures)] if result.failures else [])]),
    )


def _apply_all(content: str, edits: Sequence[Edit], done: int) -> _Result:
    failures: list[_Failure] = []
    notes: list[str] = []
    for number, edit in enumerate(edits[done:], done + 1):
        try:
            content, note = apply(content, edit.old_string, edit.new_string, edit.replace_all)
        except ToolFailed as exc:
            failures.append(_Failure(number, exc.message, edit))
        else:
            notes += [f"Edit {number}: {note}"] if note else []
    return _Result(content, failures, notes)


def _told(failures: Sequence[_Failure]) -> str:
    return "\n".join(f"Edit {number} was not made: {reason}" for number, reason, _ in failures)


def _failed(failures: Sequence[_Failure]) -> dict[str, Any]:
    if not failures:
        return {}
    return {
        "edits_failed": [
            {"index": number, "error": reason, "edit": to_builtins(edit)} for number, reason, edit in failures
        ]
    }
