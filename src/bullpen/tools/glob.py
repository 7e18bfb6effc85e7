"""Find files by their names."""

from __future__ import annotations

import os
from typing import Annotated, Any

import anyio
from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.system import globs
from bullpen.system.globs import BadPattern, Glob
from bullpen.system.ripgrep import Findings
from bullpen.tools import searching
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.searching import MAX_ROWS, Place, Seen

TIMEOUT_S = 30.0
MAX_NAME_BYTES = 8 * 1024 * 1024
"""Some hundred thousand names; a pattern that leaves more is too wide."""

DESCRIPTION = f"""\
Find files by a pattern for their path, such as `**/*.py` or `src/**/test_*.{{ts,tsx}}`. `*` and `?` stay within one name, `**` \
stands for any directories, `{{a,b}}` for either. The one that changed last comes first; at most {MAX_ROWS} are shown.

What the ignore files name is left out, and so are version control, caches, installed packages, links, and names that begin \
with a dot unless the pattern says so. To search by content use grep."""


class GlobParams(Struct, frozen=True):
    pattern: Annotated[str, Meta(description="The pattern, relative to path.")]
    path: Annotated[str, Meta(description="The directory to search. Default: the workspace.")] = ""


@tool("glob", DESCRIPTION, effects=False, task=True)
async def glob(params: GlobParams, ctx: ToolContext) -> Outcome:
    if not params.pattern.strip("/ "):
        raise ToolFailed("the pattern is empty")
    prefix, rest = globs.split(params.pattern)
    try:
        wanted = await anyio.to_thread.run_sync(Glob, rest)
    except BadPattern as exc:
        raise ToolFailed(f"{exc}; search for less at once") from exc
    if ".." in rest.split("/"):
        raise ToolFailed("`..` may only stand at the beginning of a pattern; give path instead")
    base = ctx.resolve(params.path) if params.path else ctx.root
    top = ctx.resolve(prefix if prefix.startswith("~") else os.path.join(base, prefix))
    place = await searching.place_of(
        ctx, top, action="list", params={"pattern": params.pattern, "path": str(top)}
    )
    timeout_s = searching.seconds(ctx, "glob", TIMEOUT_S)
    found = await ctx.jobs.search(
        ["--files", "--null", *searching.options(place, rest), *searching.target(place)],
        directory=place.base,
        limit_bytes=MAX_NAME_BYTES,
        timeout_s=timeout_s,
    )
    files = await anyio.to_thread.run_sync(_sorted, place, found, wanted, abandon_on_cancel=True)
    is_cut = len(files) > MAX_ROWS or found.is_cut or found.is_late
    return Outcome(
        content=_render(place, files, found, rest, timeout_s),
        metadata=_metadata(files, is_cut),
        is_cut=is_cut,
    )


def _metadata(files: list[Seen], is_cut: bool) -> dict[str, Any]:
    return {"number_of_files": min(len(files), MAX_ROWS), "truncated": is_cut}


def _sorted(place: Place, found: Findings, wanted: Glob) -> list[Seen]:
    *whole, _ = found.output.split(b"\0")
    names = map(searching.below(place), whole)
    fitting = (name for name in names if name and wanted.matches(name))
    return searching.newest_first(place.real, fitting, place.is_kept)


def _render(place: Place, files: list[Seen], found: Findings, pattern: str, timeout_s: float) -> str:
    lines = [searching.shown(str(place.shown / file.name)) for file in files[:MAX_ROWS]]
    notes = []
    if not files:
        hint = "" if "**" in pattern else f"; to look in all directories below use **/{pattern}"
        lines = [f"No files found in {place.shown}{hint}."]
    if len(files) > MAX_ROWS:
        notes.append(
            f"(Only the newest {MAX_ROWS} of {len(files)} are shown; use a narrower pattern or path.)"
        )
    if found.is_cut:
        notes.append("(There are too many files to look at all of them; use a narrower pattern or path.)")
    if found.is_late:
        notes.append(f"(Not all was searched within {timeout_s:g} s; use a narrower pattern or path.)")
    if found.problems:
        notes.append(f"(Not all could be searched: {searching.complaint(found.problems)})")
    return "\n\n".join(["\n".join(lines), *notes])
