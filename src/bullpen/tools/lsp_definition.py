"""Show where a symbol is defined."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from bullpen.lsp.capabilities import DEFINITION
from bullpen.lsp.symbols import Location, Texts
from bullpen.tools import naming
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.naming import Name, Where

AROUND = 3
MAX_SHOWN = 5

DESCRIPTION = f"""\
Show where a symbol is defined, with {AROUND} lines around. Names that are common need the file in which the one that is meant \
stands (`path`). What is defined outside the workspace is named and not shown."""


class LspDefinitionParams(Struct, frozen=True):
    symbol: Name
    path: Where = ""


@tool("lsp_definition", DESCRIPTION, effects=False, task=True, lsp=True)
async def lsp_definition(params: LspDefinitionParams, ctx: ToolContext) -> Outcome:
    symbol = await naming.locate(ctx, params.symbol, params.path, DEFINITION)
    texts = Texts(ctx.lsp.root, symbol.client.encoding)
    blocks = [await _block(ctx, each, texts) for each in symbol.definitions[:MAX_SHOWN]]
    first = symbol.definitions[0]
    metadata: dict[str, Any] = {"file_path": str(first.path), "line": 0, "content": ""}
    if naming.is_inside(ctx, first.path):
        text = await texts.get(first.path)
        line = text.from_wire(first.start).line
        metadata |= {"line": line + 1, "content": "\n".join(map(text.line, _around(line, text.line_count)))}
    return Outcome(content="\n\n".join(blocks), metadata=metadata)


async def _block(ctx: ToolContext, location: Location, texts: Texts) -> str:
    """The place, and the lines around it with a mark at the one that is meant."""
    place, note = await naming.shown(ctx, location, texts)
    if not naming.is_inside(ctx, location.path):
        return f"{place} {note}"
    text = await texts.get(location.path)
    meant = text.from_wire(location.start).line
    lines = [
        f"{'>' if number == meant else ' '}{number + 1:6}|{text.line(number)[: naming.MAX_LINE]}"
        for number in _around(meant, text.line_count)
    ]
    return "\n".join([place, *lines])


def _around(line: int, count: int) -> range:
    return range(max(0, line - AROUND), min(count, line + AROUND + 1))
