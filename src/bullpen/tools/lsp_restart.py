"""Start language servers anew."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.tools.base import Outcome, ToolContext, tool

DESCRIPTION = """\
Start language servers anew: one by its name, or all that have been started. For servers that answer wrongly, not at all, or were \
given up after they failed again and again."""


class LspRestartParams(Struct, frozen=True):
    name: Annotated[str, Meta(description="The server; empty for all that have been started.")] = ""


@tool("lsp_restart", DESCRIPTION, effects=False, lsp=True)
async def lsp_restart(params: LspRestartParams, ctx: ToolContext) -> Outcome:
    troubles = await ctx.lsp.restart(params.name)
    if not troubles and params.name:
        known = ", ".join(ctx.lsp.states()) or "none"
        raise ToolFailed(f"there is no language server {params.name!r} here; known: {known}")
    if not troubles:
        return Outcome(content="No language server has been started yet; one starts when a file is viewed.")
    lines = [f"{name}: {trouble or 'restarted'}" for name, trouble in troubles.items()]
    return Outcome(content="\n".join(lines), is_error=all(troubles.values()))
