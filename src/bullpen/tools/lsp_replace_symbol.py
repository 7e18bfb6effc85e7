"""Replace a whole function, class or other symbol, delete it, or put something before or after it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.files import texts
from bullpen.files.texts import Span
from bullpen.lsp import outline
from bullpen.lsp.outline import Node
from bullpen.lsp.positions import Text
from bullpen.tools import changing
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.edit import check_can_change
from bullpen.tools.lsp_symbols import outline_of

DESCRIPTION = """\
Replace a whole function, method, class or other symbol of a file without repeating its text; or delete it, or put something before \
or after it. Works on whole lines: give the replacement with its indentation. The first symbol of that name is taken; \
`Class.method` says which one is meant. The file must have been read with view in this session, and be unchanged since. The user \
sees the change and may refuse it."""

Action = Literal["replace", "add_before", "add_after", "delete"]
DONE = {
    "replace": "Replaced",
    "add_before": "Added before",
    "add_after": "Added after",
    "delete": "Deleted",
}


class LspReplaceSymbolParams(Struct, frozen=True):
    symbol: Annotated[str, Meta(description="The name, such as run or Server.run.")]
    file_path: Annotated[str, Meta(description="The file, absolute or relative to the workspace.")]
    replacement: Annotated[str, Meta(description="Whole lines; not needed to delete.")] = ""
    action: Annotated[Action, Meta(description="Default: replace.")] = "replace"


@tool("lsp_replace_symbol", DESCRIPTION, lsp=True)
async def lsp_replace_symbol(params: LspReplaceSymbolParams, ctx: ToolContext) -> Outcome:
    if params.action != "delete" and not params.replacement.strip():
        raise ToolFailed("the replacement is empty; use the action delete to remove a symbol")
    text = await texts.load(ctx.resolve(params.file_path))
    await check_can_change(text, ctx)
    nodes = await outline_of(ctx, params.file_path)
    found = outline.find(nodes, params.symbol.strip())
    if not found:
        known = ", ".join(dict.fromkeys(node.name for node in nodes[:20])) or "none"
        raise ToolFailed(f"there is no symbol {params.symbol!r} in {text.path}; symbols of the file: {known}")
    if (await texts.load(text.path)).content != text.content:
        raise ToolFailed(f"{text.path} was changed by somebody else just now; view it again first")
    node = found[0]
    after = texts.replaced(text.content, [_span(texts.plain(text.content), node, params)])
    if after == text.content:
        raise ToolFailed("the symbol has this text already; nothing was changed")
    many = f"There are {len(found)} symbols of that name; the first was taken." if len(found) > 1 else ""
    lines = f"{node.kind_name} {params.symbol} (lines {node.first + 1}–{node.last + 1})"
    return await changing.change(
        ctx,
        text,
        after,
        asking="Change file",
        done=f"{DONE[params.action]} {lines} in",
        metadata=lambda _: {
            "file_path": str(text.path),
            "old_content": text.content,
            "new_content": after,
            "action": params.action,
        },
        notes=many,
    )


def _span(plain: str, node: Node, params: LspReplaceSymbolParams) -> Span:
    """What becomes of the symbol's lines."""
    lines = Text(plain)
    start, end = lines.start_of(node.first), lines.start_of(node.last + 1)
    new = texts.plain(params.replacement)
    new = new if new.endswith("\n") or not new else f"{new}\n"
    match params.action:
        case "replace":
            # Where the file ends without a newline it goes on doing so.
            return Span(start, end, new if plain[start:end].endswith("\n") else new.removesuffix("\n"))
        case "delete":
            return Span(start, end, "")
        case "add_before":
            return Span(start, start, new)
        case "add_after":
            return Span(end, end, new if plain[:end].endswith("\n") else "\n" + new.removesuffix("\n"))
