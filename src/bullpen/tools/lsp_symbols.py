"""List the symbols of a file."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from msgspec import Meta, Struct

from bullpen.lsp import outline
from bullpen.tools.base import Outcome, ToolContext, tool

METHOD = "textDocument/documentSymbol"
TIMEOUT_S = 10.0

DESCRIPTION = f"""\
List the classes, functions, variables and other symbols of a file as an outline, with their lines: a quick way to see what is \
in a long file before reading a part of it. At most {outline.MAX_SYMBOLS} are listed."""


class LspSymbolsParams(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]


@tool("lsp_symbols", DESCRIPTION, effects=False, task=True, lsp=True)
async def lsp_symbols(params: LspSymbolsParams, ctx: ToolContext) -> Outcome:
    nodes = await outline_of(ctx, params.file_path)
    lines = list(islice(outline.lines(nodes), outline.MAX_SYMBOLS + 1))
    is_cut = len(lines) > outline.MAX_SYMBOLS
    if is_cut:
        lines[-1] = f"(There are more; {outline.MAX_SYMBOLS} are shown.)"
    return Outcome(content="\n".join(lines) or "The file has no symbols.", is_cut=is_cut)


async def outline_of(ctx: ToolContext, file_path: str) -> tuple[outline.Node, ...]:
    client, document = await ctx.lsp.open(ctx.resolve(file_path), METHOD)
    answer = await client.request(METHOD, {"textDocument": {"uri": document.uri}}, timeout_s=TIMEOUT_S)
    return outline.tree(answer)
