"""The way of a change to a file, once the new text is known: compared, shown, permitted, saved, recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from bullpen.files import diff, texts
from bullpen.files.diff import Diff
from bullpen.files.texts import Text
from bullpen.tools.base import Outcome, PermissionDenied, Reach, ToolContext


async def change(
    ctx: ToolContext,
    text: Text,
    after: str,
    *,
    asking: str,
    done: str,
    metadata: Callable[[Diff], dict[str, Any]],
    notes: str = "",
) -> Outcome:
    """Ask, and then make the change. Nothing is made before, not even a directory.

    A refusal is a result that still shows what was refused. Raises `ToolFailed` when the file is not what it was;
    it is then left alone.
    """
    found = await anyio.to_thread.run_sync(diff.unified, text.content, after, _name(text.path, ctx.root))
    try:
        await ctx.permit(
            "write",
            description=f"{asking} {text.path}",
            params=_shown(text.path, text.content, after),
            path=ctx.root if ctx.is_inside(text.real) else text.real.parent,
            reach=Reach(paths=(text.real,)),
        )
    except PermissionDenied as refusal:
        return Outcome(content=refusal.message, is_error=True, stop_turn=True, metadata=metadata(found))
    await texts.save(text, after, ctx.files)
    told = f"{done} {text.path} (+{found.additions} −{found.removals} lines)."
    return Outcome(content=f"{told}\n{notes}" if notes else told, metadata=metadata(found))


def _shown(path: Path, before: str, after: str) -> dict[str, Any]:
    shown = {"file_path": str(path), "old_content": before, "new_content": after}
    return {name: text for name, text in shown.items() if text}


def _name(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
