"""Find lines in files by a regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple

import anyio
from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.files import texts
from bullpen.system import files
from bullpen.system.globs import BadPattern, Glob
from bullpen.system.ripgrep import Findings
from bullpen.tools import searching
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.searching import MAX_ROWS, Place

TIMEOUT_S = 5.0
MAX_OUTPUT_BYTES = 4 * 1024 * 1024
MAX_PATTERN = 10_000
MAX_COLUMNS = 500
SAME_BYTES = 400
"""How much of a line has to be as ripgrep saw it."""

DESCRIPTION = f"""\
Find lines by a regular expression (Rust's, without look-around and back-references; `literal_text` for plain text). The files \
that changed last come first; at most {MAX_ROWS} lines are shown. `include` narrows to names such as `*.py` or `src/**/*.{{ts,tsx}}`.

What the ignore files name is left out, and so are binary files, version control, caches, installed packages, links and \
names that begin with a dot. To find files by name use glob."""


class GrepParams(Struct, frozen=True):
    pattern: Annotated[str, Meta(description="The regular expression, or the text with literal_text.")]
    path: Annotated[str, Meta(description="The directory or file to search. Default: the workspace.")] = ""
    include: Annotated[str, Meta(description="A pattern for the files to search, such as *.{ts,tsx}.")] = ""
    literal_text: Annotated[bool, Meta(description="Take the pattern as plain text. Default false.")] = False


class _Hit(NamedTuple):
    """A line that ripgrep told of."""

    number: int
    column: int
    offset: int
    text: bytes


class _Row(NamedTuple):
    number: int
    column: int
    text: str


class _Match(NamedTuple):
    name: str
    modified_ns: int
    rows: list[_Row]


@tool("grep", DESCRIPTION, effects=False, task=True)
async def grep(params: GrepParams, ctx: ToolContext) -> Outcome:
    _check(params)
    wanted = await anyio.to_thread.run_sync(_wanted, params.include)
    path = ctx.resolve(params.path) if params.path else ctx.root
    shown = {"pattern": params.pattern, "path": str(path), "include": params.include}
    place = await searching.place_of(ctx, path, action="read", params=shown)
    timeout_s = searching.seconds(ctx, "grep", TIMEOUT_S)
    found = await ctx.jobs.search(
        _arguments(params, place), directory=place.base, limit_bytes=MAX_OUTPUT_BYTES, timeout_s=timeout_s
    )
    matches = await anyio.to_thread.run_sync(_matches, place, found, wanted, abandon_on_cancel=True)
    if not matches:
        _check_went_well(found, timeout_s)
    count = sum(len(match.rows) for match in matches)
    is_cut = count > MAX_ROWS or found.is_cut or found.is_late
    return Outcome(
        content=_render(place, matches, found, timeout_s),
        metadata={"number_of_matches": min(count, MAX_ROWS), "truncated": is_cut},
        is_cut=is_cut,
    )


def _check(params: GrepParams) -> None:
    if not params.pattern:
        raise ToolFailed("the pattern is empty")
    if len(params.pattern) > MAX_PATTERN:
        raise ToolFailed(f"the pattern is longer than {MAX_PATTERN} characters; search for less at once")
    if "\n" in params.pattern or "\0" in params.pattern:
        raise ToolFailed("a pattern is matched within one line; search for one of the lines")


def _wanted(include: str) -> Glob | None:
    """Without a directory in it, a pattern is for names, wherever they stand."""
    try:
        return Glob(include if "/" in include else f"**/{include}") if include else None
    except BadPattern as exc:
        raise ToolFailed(f"{exc} (include); search for less at once") from exc


def _arguments(params: GrepParams, place: Place) -> list[str]:
    return [
        "--null",
        "--no-heading",
        "--with-filename",
        "--line-number",
        "--column",
        "--byte-offset",
        "--max-columns=1000",
        "--max-columns-preview",
        # One more than is shown, so that what is left out is noticed.
        f"--max-count={MAX_ROWS + 1}",
        *(["--fixed-strings"] if params.literal_text else []),
        *searching.options(place, params.include),
        "-e",
        params.pattern,
        *searching.target(place),
    ]


def _check_went_well(found: Findings, timeout_s: float) -> None:
    """Raises `ToolFailed` when nothing was found because something went wrong."""
    if "regex parse error" in found.problems or "error parsing" in found.problems:
        told = searching.about_pattern(found.problems)
        raise ToolFailed(
            f"the pattern is not a regular expression that grep knows; set literal_text for plain text\n{told}"
        )
    if found.is_late:
        raise ToolFailed(f"nothing was found within {timeout_s:g} s; search a smaller path, or use include")
    if found.problems and not found.is_cut:
        raise ToolFailed(
            f"nothing was found; not all could be searched: {searching.complaint(found.problems)}"
        )


_LINE = re.compile(rb"([^\0]+)\0(\d+):(\d+):(\d+):(.*)", re.DOTALL)


def _hits(place: Place, found: Findings, wanted: Glob | None) -> dict[str, list[_Hit]]:
    """Lines by the names of their files; what is not in that form, such as a note about a binary file, is no line."""
    hits: dict[str, list[_Hit]] = {}
    lines = found.output.split(b"\n")
    below = searching.below(place)
    for line in lines[:-1]:
        parsed = _LINE.fullmatch(line)
        name = below(parsed[1]) if parsed else None
        if parsed is None or name is None or (wanted and not wanted.matches(name or Path(place.real).name)):
            continue
        hits.setdefault(name, []).append(_Hit(int(parsed[2]), int(parsed[3]), int(parsed[4]), parsed[5]))
    return hits


def _matches(place: Place, found: Findings, wanted: Glob | None) -> list[_Match]:
    hits = _hits(place, found, wanted)
    whole = place.real
    top = whole.parent if "" in hits else whole
    by_name = {name or whole.name: rows for name, rows in hits.items()}
    matches: list[_Match] = []
    room = MAX_ROWS + 1
    for seen in searching.newest_first(top, by_name, place.is_kept):
        rows = list(_rows(top / seen.name, by_name[seen.name][:room]))
        if rows:
            matches.append(_Match("" if "" in hits else seen.name, seen.modified_ns, rows))
            room -= len(rows)
        if room <= 0:
            break
    return matches


def _rows(real: Path, hits: list[_Hit]) -> Iterator[_Row]:
    """The lines as they stand in the file; one that is not there any more is left out."""
    try:
        with open(files.open_file(real), "rb") as file:
            if texts.encoding_by_mark(file.read(4)):
                yield from _decoded_rows(file, hits)
                return
            for hit in hits:
                row = _row(file, hit)
                if row is not None:
                    yield row
    except OSError:
        return


def _row(file: BinaryIO, hit: _Hit) -> _Row | None:
    file.seek(hit.offset)
    line = file.readline(1 << 16)
    if line.rstrip(b"\r\n")[:SAME_BYTES] != hit.text.rstrip(b"\r")[:SAME_BYTES]:
        return None
    before = line[: hit.column - 1].decode("utf-8", "replace")
    if len(before) < MAX_COLUMNS - 100:
        return _Row(hit.number, len(before) + 1, _cut(line.rstrip(b"\r\n").decode("utf-8", "replace")))
    file.seek(hit.offset + hit.column - 101)
    around = file.readline(MAX_COLUMNS * 4).rstrip(b"\r\n").decode("utf-8", "replace").strip("\ufffd")
    return _Row(hit.number, len(before) + 1, "…" + _cut(around))


def _decoded_rows(file: BinaryIO, hits: list[_Hit]) -> Iterator[_Row]:
    """Of a file in UTF-16 ripgrep counts what it made of it."""
    file.seek(0)
    content = file.read(texts.MAX_BYTES)
    encoding = texts.encoding_by_mark(content) or "utf-8"
    lines = content.decode(encoding, "replace").removeprefix(texts.BOM).split("\n")
    for hit in hits:
        line = lines[hit.number - 1].rstrip("\r") if hit.number <= len(lines) else ""
        if line[:100] == hit.text.decode("utf-8", "replace").rstrip("\r").removeprefix(texts.BOM)[:100]:
            yield _Row(hit.number, hit.column, _cut(line))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_COLUMNS else f"{text[:MAX_COLUMNS]}…"


def _render(place: Place, matches: list[_Match], found: Findings, timeout_s: float) -> str:
    blocks: list[str] = []
    room = MAX_ROWS
    for match in matches:
        rows = match.rows[:room]
        room -= len(rows)
        if rows:
            path = searching.shown(str(place.shown / match.name if match.name else place.shown))
            lines = [f"  Line {row.number}, Char {row.column}: {row.text}" for row in rows]
            blocks.append("\n".join([f"{path}:", *lines]))
    count = MAX_ROWS - room
    head = f"Found {count} matches" if count != 1 else "Found 1 match"
    notes = []
    if found.is_cut or sum(len(match.rows) for match in matches) > MAX_ROWS:
        notes.append("(There are more; use a narrower pattern, path or include.)")
    if found.is_late:
        notes.append(f"(Not all was searched within {timeout_s:g} s; search a smaller path, or use include.)")
    if found.problems:
        notes.append(f"(Not all could be searched: {searching.complaint(found.problems)})")
    return "\n\n".join([head if blocks else "No matches found.", *blocks, *notes])
