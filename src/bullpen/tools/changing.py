"""The way of a change to files, once the new texts are known: compared, shown, permitted, saved, recorded, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from bullpen.errors import ToolFailed
from bullpen.files import diff, texts
from bullpen.files.diff import Diff
from bullpen.files.texts import Text
from bullpen.tools.base import FileRecords, Outcome, PermissionDenied, Reach, ToolContext

MAX_DIFF = 500_000
"""Characters. Nobody reads more before agreeing to it."""


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
    known = await ctx.lsp.before_change(text.path)
    await texts.save(text, after, ctx.files)
    told = f"{done} {text.path} (+{found.additions} −{found.removals} lines)."
    told = f"{told}\n{notes}" if notes else told
    return Outcome(content=told + await ctx.lsp.after_change(text.path, known), metadata=metadata(found))


class Change(NamedTuple):
    text: Text
    after: str


async def change_all(
    ctx: ToolContext, changes: Sequence[Change], *, asking: str, params: Mapping[str, Any], done: str
) -> Outcome:
    """Change several files of the workspace, asked about as one. All are changed or none is.

    A file that the session has read must be as it was read. One that it has not read counts as unread afterwards too.
    Raises `ToolFailed`.
    """
    seen = [await _check_seen(ctx.files, each.text) for each in changes]
    found = await anyio.to_thread.run_sync(_diffs, changes, ctx.root)
    shown = "\n".join(each.text for each in found)
    if len(shown) > MAX_DIFF:
        raise ToolFailed(
            "this changes more than anybody would read before agreeing to it; make smaller steps"
        )
    names = [_name(each.text.path, ctx.root) for each in changes]
    metadata = {
        "files": names,
        "diff": shown,
        "additions": sum(each.additions for each in found),
        "removals": sum(each.removals for each in found),
    }
    try:
        await ctx.permit(
            "write",
            description=f"{asking} in {len(names)} file{'s' if len(names) > 1 else ''}",
            params={**params, "files": names, "diff": shown},
            path=ctx.root,
            reach=Reach(paths=tuple(each.text.real for each in changes)),
        )
    except PermissionDenied as refusal:
        return Outcome(content=refusal.message, is_error=True, stop_turn=True, metadata=metadata)
    first = changes[0].text.path
    known = await ctx.lsp.before_change(first)
    await _save_all(ctx.files, changes, seen)
    lines = [
        f"- {name} (+{each.additions} −{each.removals} lines)"
        for name, each in zip(names, found, strict=True)
    ]
    told = "\n".join([done, *lines])
    return Outcome(content=told + await ctx.lsp.after_change(first, known), metadata=metadata)


async def _check_seen(records: FileRecords, text: Text) -> bool:
    """Whether the session has read a file. Raises `ToolFailed` when it has, and somebody has changed it since."""
    if await records.read_at(text.path) is None and await records.read_at(text.real) is None:
        return False
    await texts.check_read(text, records)
    return True


async def _save_all(records: FileRecords, changes: Sequence[Change], seen: Sequence[bool]) -> None:
    """Not to be cancelled between two files."""
    done: list[tuple[Change, bool]] = []
    with anyio.CancelScope(shield=True):
        try:
            for each, is_seen in zip(changes, seen, strict=True):
                await texts.save(each.text, each.after, _Recorder(records, is_seen))
                done.append((each, is_seen))
        except ToolFailed as exc:
            stuck = [each.text.path for each, is_seen in done if not await _put_back(records, each, is_seen)]
            rest = f"; these stay changed: {', '.join(map(str, stuck))}" if stuck else "; no file was changed"
            raise ToolFailed(f"{exc.message}{rest}") from exc


async def _put_back(records: FileRecords, change: Change, is_seen: bool) -> bool:
    """Undo a change, unless somebody has changed the file again by now."""
    try:
        now = await texts.load(change.text.path)
        if now.content != change.after:
            return False
        await texts.save(now, change.text.content, _Recorder(records, is_seen))
    except ToolFailed:
        return False
    return True


class _Recorder:
    """What a save is recorded with."""

    def __init__(self, records: FileRecords, is_seen: bool) -> None:
        self._records = records
        self._is_seen = is_seen

    async def read_at(self, path: Path) -> float | None:
        return await self._records.read_at(path)

    async def record_change(self, path: Path, before: str, after: str) -> None:
        await self._records.record_change(path, before, after, seen=self._is_seen)


def _diffs(changes: Sequence[Change], root: Path) -> list[Diff]:
    return [diff.unified(each.text.content, each.after, _name(each.text.path, root)) for each in changes]


def _shown(path: Path, before: str, after: str) -> dict[str, Any]:
    shown = {"file_path": str(path), "old_content": before, "new_content": after}
    return {name: text for name, text in shown.items() if text}


def _name(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
