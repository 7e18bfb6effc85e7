"""Say how Bullpen itself is configured here."""

from __future__ import annotations

from msgspec import Struct

from bullpen.tools.base import Outcome, ToolContext, tool


class InfoParams(Struct, frozen=True):
    pass


@tool(
    "bullpen_info",
    "Show how Bullpen, the program that runs you, is configured in this workspace: config files, models, providers, outside "
    "servers, skills, hooks, permissions, options, and what is wrong with any of them. Use it when the user asks about "
    "Bullpen's own settings or when one of its parts does not work. Keys and tokens are not shown.",
    effects=False,
)
async def bullpen_info(params: InfoParams, ctx: ToolContext) -> Outcome:
    sections = await ctx.about.configuration()
    return Outcome(content="\n\n".join("\n".join([f"[{name}]", *lines]) for name, lines in sections))
