"""Show a directory as a tree."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import anyio
from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.system import files, paths
from bullpen.system.ignore import IgnoreRules
from bullpen.tools.base import Outcome, Reach, ToolContext, tool

MAX_ITEMS = 1000
MAX_DEPTH_UNLIMITED = 0
MAX_LEVELS = 100
"""Each level is a directory that is held open; nobody reads deeper in one look."""

MAX_ENTRIES = 50_000
"""Of one directory: more are no list that anybody reads, and have to be sorted."""

DESCRIPTION = """\
Show what a directory holds, as a tree. Directories end with `/`; links are shown and not followed. What the ignore files \
name is left out, and so are version control, caches and installed packages. For a large tree give a deeper `path`, a \
`depth`, or names to `ignore`. To find files by name use glob, by content grep."""


class LsParams(Struct, frozen=True):
    path: Annotated[str, Meta(description="The directory. Default: the workspace.")] = ""
    ignore: Annotated[list[str], Meta(description="Names to leave out, with * and ? as wildcards.")] = []
    depth: Annotated[int, Meta(description="How many levels to show. Default 0: all.")] = MAX_DEPTH_UNLIMITED


@tool("ls", DESCRIPTION, effects=False, task=True)
async def ls(params: LsParams, ctx: ToolContext) -> Outcome:
    path = ctx.resolve(params.path) if params.path else ctx.root
    real = await anyio.to_thread.run_sync(paths.real, path)
    is_inside = ctx.is_inside(real)
    await ctx.permit(
        "list",
        description=f"List directory{'' if is_inside else ' outside the workspace'}: {real}",
        params={"path": str(path), "ignore": list(params.ignore), "depth": params.depth},
        path=real,
        reach=Reach(paths=(real,), is_read=is_inside),
    )
    if not await anyio.to_thread.run_sync(os.path.isdir, real):
        raise ToolFailed(f"there is no directory {path}")
    limits = _limits(ctx.limits, params.depth)
    is_kept = await ctx.keeps_from("list")
    tree = await anyio.to_thread.run_sync(
        _draw, real, paths.real(ctx.root), tuple(params.ignore), limits, is_kept, abandon_on_cancel=True
    )
    return Outcome(
        content=_render(path, tree, limits),
        metadata={"number_of_files": len(tree.lines), "truncated": tree.is_cut},
        is_cut=tree.is_cut,
    )


class _Limits(NamedTuple):
    depth: int
    items: int


class _Tree(NamedTuple):
    lines: list[str]
    is_cut: bool
    is_shallow: bool


def _limits(config: Any, depth: int) -> _Limits:
    """What the call asks for, within what the config allows; 0 means no limit of depth."""
    section = config.get("ls") or {}
    allowed = int(section.get("max_depth") or MAX_DEPTH_UNLIMITED)
    wanted = [each for each in (max(depth, 0), allowed) if each]
    return _Limits(min(wanted, default=MAX_DEPTH_UNLIMITED), int(section.get("max_items") or MAX_ITEMS))


def _draw(
    top: Path, root: Path, ignored: Sequence[str], limits: _Limits, is_kept: Callable[[Path], bool] | None
) -> _Tree:
    """Depth first, in the order of names; stops at the limit. Each directory is opened within the one above it, so that a name
    which has become a link meanwhile leads nowhere."""
    lines: list[str] = []
    is_shallow = False
    unwanted = [re.compile(fnmatch.translate(each)) for each in ignored]
    deepest = min(limits.depth or MAX_LEVELS, MAX_LEVELS)

    def descend(fd: int, directory: Path, rules: IgnoreRules, level: int) -> bool:
        """Whether there was room for everything."""
        nonlocal is_shallow
        found = files.list_directory(fd, most=MAX_ENTRIES)
        for name, is_dir in found:
            here = directory / name
            if any(each.match(name) for each in unwanted) or rules.hides(here, is_dir=is_dir):
                continue
            if is_kept is not None and is_kept(here):
                continue
            if len(lines) >= limits.items:
                return False
            lines.append(f"{'  ' * level}- {name}{'/' if is_dir else ''}")
            if not is_dir:
                continue
            if level == deepest:
                is_shallow = True
                continue
            with suppress(OSError), files.open_below(name, fd) as below:
                if not descend(below, here, rules.inside(here), level + 1):
                    return False
        return len(found) < MAX_ENTRIES

    fits = True
    with suppress(OSError), files.open_directory(top) as opened:
        fits = descend(opened, top, IgnoreRules.between(root, top), 1)
    return _Tree(lines, not fits, is_shallow)


def _render(path: Path, tree: _Tree, limits: _Limits) -> str:
    notes = []
    if tree.is_cut:
        notes.append(
            f"Only the first {limits.items} entries are shown; give a deeper path to see the others."
        )
    if tree.is_shallow:
        notes.append(f"Only {min(limits.depth or MAX_LEVELS, MAX_LEVELS)} levels are shown.")
    lines = [f"- {path}/", *tree.lines] if tree.lines else [f"- {path}/", "  (empty)"]
    return "\n\n".join(["\n".join(notes), "\n".join(lines)] if notes else ["\n".join(lines)])
