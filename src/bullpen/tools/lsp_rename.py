"""Rename a symbol wherever it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.files import texts
from bullpen.lsp import edits, symbols
from bullpen.lsp.positions import Encoding
from bullpen.tools import changing, naming
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.changing import Change
from bullpen.tools.naming import Name, Where

METHOD = "textDocument/rename"
TIMEOUT_S = 10.0

DESCRIPTION = """\
Rename a symbol in all files that use it, by what it means: better than edits of each place. All files are changed or none is. Files \
that were viewed in this session must be unchanged since. Names that are common need the file in which the one that is meant \
stands (`path`). The user sees all changes and may refuse them."""


class LspRenameParams(Struct, frozen=True):
    symbol: Name
    new_name: Annotated[str, Meta(description="What it is to be called, without what it belongs to.")]
    path: Where = ""


@tool("lsp_rename", DESCRIPTION, lsp=True)
async def lsp_rename(params: LspRenameParams, ctx: ToolContext) -> Outcome:
    new_name = params.new_name.strip()
    if not new_name or any(not c.isprintable() or c.isspace() for c in new_name):
        raise ToolFailed("new_name is no name")
    symbol = await naming.locate(ctx, params.symbol, params.path, METHOD)
    await symbol.everywhere(ctx, params.symbol)
    answer = await symbol.ask(METHOD, TIMEOUT_S, newName=new_name)
    wanted = edits.read_edits(answer)
    outside = [path for path in wanted if not naming.is_inside(ctx, path)]
    if outside:
        raise ToolFailed(
            f"this would change files outside the workspace, such as {outside[0]}; rename by hand"
        )
    old = symbols.last_part(params.symbol.strip())
    changes = [await _change(path, each, symbol.client.encoding, old) for path, each in wanted.items()]
    changes = sorted(
        (each for each in changes if each.after != each.text.content),
        # The file in which the symbol was found comes first: its problems are shown.
        key=lambda each: (each.text.real != symbol.path, str(each.text.path)),
    )
    if not changes:
        raise ToolFailed(f"the language server sees nothing to change for {params.symbol!r}")
    return await changing.change_all(
        ctx,
        changes,
        asking=f"Rename {params.symbol} to {new_name}",
        params={"symbol": params.symbol, "new_name": new_name},
        done=f"Renamed {params.symbol} to {new_name}:",
    )


async def _change(path: Path, wanted: list[dict[str, Any]], encoding: Encoding, old: str) -> Change:
    """Positions are those of the text without its byte order mark."""
    text = await texts.load(path)
    if not text.exists:
        raise ToolFailed(
            f"the language server wants to change {path}, which is not there; lsp_restart may help"
        )
    mark = texts.BOM if text.content.startswith(texts.BOM) else ""
    after = edits.apply(text.content.removeprefix(mark), wanted, encoding, expects=old)
    return Change(text, mark + after)
