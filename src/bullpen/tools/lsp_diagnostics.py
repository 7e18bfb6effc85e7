"""Show what language servers complain about."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from bullpen.tools.base import Outcome, ToolContext, tool

DESCRIPTION = """\
Show errors, warnings and hints of the language servers: for one file, which is checked anew, or without one for all files that \
were viewed or changed so far. At most 10 are listed of the file and 10 of the rest; the summary counts all.

After each change of a file its result already says which problems are new and which are gone; use this to see what was there \
before, or what a slow server found meanwhile."""


class LspDiagnosticsParams(Struct, frozen=True):
    file_path: Annotated[str, Meta(description="The file; empty for all that is open.")] = ""


@tool("lsp_diagnostics", DESCRIPTION, effects=False, lsp=True)
async def lsp_diagnostics(params: LspDiagnosticsParams, ctx: ToolContext) -> Outcome:
    path = ctx.resolve(params.file_path) if params.file_path else None
    return Outcome(content=await ctx.lsp.complaints(path))
