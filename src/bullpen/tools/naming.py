"""Find what a name means: searched for as a whole word, and taken at the first place at which a language server knows it.

In comments and texts it does not. What a server points at outside the workspace is named and not shown.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import anyio
from msgspec import Meta

from bullpen.errors import ToolFailed
from bullpen.lsp import symbols
from bullpen.lsp.capabilities import DEFINITION
from bullpen.lsp.client import Client
from bullpen.lsp.documents import Document, read_text
from bullpen.lsp.positions import Text
from bullpen.lsp.symbols import MAX_TEXT_BYTES, Hit, Location, Texts
from bullpen.system import paths
from bullpen.tools import searching
from bullpen.tools.base import ToolContext

MAX_HITS = 100
MAX_TRIES = 25
"""Places at which a server is asked."""

MAX_FILES = 150
"""Files that are opened at a server before it is asked for all uses of a name."""

MAX_LINE = 200
SEARCH_S = 5.0
SEARCH_BYTES = 1024 * 1024
REQUEST_S = 5.0

Name = Annotated[str, Meta(description="The name, such as run, Server.run or app::run.")]
Where = Annotated[
    str, Meta(description="The file or directory in which the name stands. Default: the workspace.")
]


class Symbol(NamedTuple):
    """A name at a place where a server knows it, and where that says it is defined."""

    client: Client
    document: Document
    path: Path
    position: dict[str, int]
    definitions: list[Location]

    async def everywhere(self, ctx: ToolContext, name: str) -> None:
        """Make sure that the server knows all files in which the name stands: one that was made just now it may not have
        found yet, and a rename would leave it out."""
        files = await _files(ctx, symbols.last_part(name.strip()), ctx.lsp.root)
        await ctx.lsp.show(self.client, files[:MAX_FILES])

    async def ask(self, method: str, timeout_s: float = REQUEST_S, **more: Any) -> Any:
        params = {"textDocument": {"uri": self.document.uri}, "position": self.position, **more}
        return await self.client.request(method, params, timeout_s=timeout_s)


async def locate(ctx: ToolContext, symbol: str, where: str, method: str) -> Symbol:
    """The symbol of a name, at a server that knows the method. Raises `ToolFailed` with the next step."""
    symbol = symbol.strip()
    if not symbol or any(not character.isprintable() for character in symbol):
        raise ToolFailed("the symbol is no name; give one such as run or Server.run")
    place = ctx.resolve(where) if where else ctx.root
    if not is_inside(ctx, place):
        raise ToolFailed(f"{place} lies outside the workspace; language servers only know what is in it")
    hits = await _hits(ctx, symbol, place)
    if not hits:
        raise ToolFailed(
            f"{symbol!r} does not stand as a whole word in a source file below {place}; check the name, or look for it with grep"
        )
    failures: dict[str, str] = {}
    for hit in sorted(hits, key=lambda hit: hit.rank(symbol))[:MAX_TRIES]:
        if hit.path.suffix in failures:
            continue
        try:
            client, document = await ctx.lsp.open(hit.path, method)
        except ToolFailed as exc:
            failures[hit.path.suffix] = exc.message
            continue
        position = Text(document.text, client.encoding).to_wire(hit.place)
        found = Symbol(client, document, hit.path, position, [])
        if not client.can(DEFINITION):
            return found
        definitions = symbols.locations(await found.ask(DEFINITION))
        if definitions:
            return found._replace(definitions=definitions)
    if failures:
        raise ToolFailed("; ".join(failures.values()))
    raise ToolFailed(
        f"{symbol!r} stands at {len(hits)} places, but the language server knows it at none of them; "
        "give the file in which it is used as path, or use grep"
    )


async def _hits(ctx: ToolContext, symbol: str, place: Path) -> list[Hit]:
    if await anyio.to_thread.run_sync(place.is_file):
        names = [place]
    else:
        names = [
            path
            for path in await _files(ctx, symbols.last_part(symbol), place)
            if ctx.lsp.selection.serves(path)
        ]
    hits: list[Hit] = []
    for path in names:
        text = await anyio.to_thread.run_sync(read_text, path, MAX_TEXT_BYTES)
        hits += symbols.hits(path, text or "", symbol)
        if len(hits) >= MAX_HITS:
            break
    return hits[:MAX_HITS]


async def _files(ctx: ToolContext, name: str, directory: Path) -> list[Path]:
    """The files that hold a word, the one that changed last first."""
    place = await searching.place_of(ctx, directory, action="read", params={"path": str(directory)})
    arguments = [
        "--files-with-matches",
        "--null",
        "--fixed-strings",
        "--word-regexp",
        *searching.options(place, ""),
        "-e",
        name,
        *searching.target(place),
    ]
    found = await ctx.jobs.search(
        arguments, directory=place.base, limit_bytes=SEARCH_BYTES, timeout_s=SEARCH_S
    )
    below = map(searching.below(place), found.output.split(b"\0")[:-1])
    names = [each for each in below if each]
    seen = await anyio.to_thread.run_sync(searching.newest_first, place.real, names, place.is_kept)
    return [place.real / each.name for each in seen]


async def shown(ctx: ToolContext, location: Location, texts: Texts) -> tuple[str, str]:
    """A place as `path:line:column` and its line; of a file outside the workspace the line is not shown."""
    name = name_of(ctx, location.path)
    if not is_inside(ctx, location.path):
        return f"{name}:{location.line + 1}", "(outside the workspace)"
    text = await texts.get(location.path)
    place = text.from_wire(location.start)
    line = text.line(place.line).strip()
    return f"{name}:{place.line + 1}:{place.column + 1}", line[:MAX_LINE]


def is_inside(ctx: ToolContext, path: Path) -> bool:
    """Whether a path that a model or a server named leads to a file of the workspace."""
    return ctx.is_inside(paths.real(path))


def name_of(ctx: ToolContext, path: Path) -> str:
    """As short as it can be, for reading."""
    inside = path.is_relative_to(ctx.lsp.root)
    return searching.shown(os.path.relpath(path, ctx.lsp.root) if inside else str(path))
