"""Show who calls a function, or what it calls."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.lsp.diagnostics import one_line
from bullpen.lsp.documents import path_of
from bullpen.lsp.outline import kind_name
from bullpen.lsp.positions import number_at
from bullpen.tools import naming
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.naming import Name, Where

PREPARE = "textDocument/prepareCallHierarchy"
TIMEOUT_S = 10.0
MAX_SHOWN = 100
MAX_PLACES = 20

DESCRIPTION = f"""\
Show who calls a function or method (incoming), or what it calls (outgoing), one level deep. At most {MAX_SHOWN} are listed. Names \
that are common need the file in which the one that is meant stands (`path`)."""


class LspCallHierarchyParams(Struct, frozen=True):
    symbol: Name
    direction: Annotated[
        Literal["incoming", "outgoing"], Meta(description="Callers (incoming, the default) or callees.")
    ] = "incoming"
    path: Where = ""


@tool("lsp_call_hierarchy", DESCRIPTION, effects=False, task=True, lsp=True)
async def lsp_call_hierarchy(params: LspCallHierarchyParams, ctx: ToolContext) -> Outcome:
    symbol = await naming.locate(ctx, params.symbol, params.path, PREPARE)
    items = await symbol.ask(PREPARE, TIMEOUT_S)
    if not isinstance(items, list) or not items:
        raise ToolFailed(f"{params.symbol!r} is nothing that can be called; use lsp_references for its uses")
    is_incoming = params.direction == "incoming"
    calls = await symbol.client.request(
        "callHierarchy/incomingCalls" if is_incoming else "callHierarchy/outgoingCalls",
        {"item": items[0]},
        timeout_s=TIMEOUT_S,
    )
    side = "from" if is_incoming else "to"
    found = [
        each
        for each in (calls if isinstance(calls, list) else ())
        if isinstance(each, dict) and isinstance(each.get(side), dict)
    ]
    verb = "calls" if not is_incoming else "is called by"
    lines = [f"{params.symbol} {verb} {len(found) or 'nothing'}{':' if found else '.'}"]
    lines += [_line(ctx, each, each[side]) for each in found[:MAX_SHOWN]]
    if len(found) > MAX_SHOWN:
        lines.append(f"(There are more; {MAX_SHOWN} are shown.)")
    return Outcome(content="\n".join(lines), is_cut=len(found) > MAX_SHOWN)


def _line(ctx: ToolContext, call: dict[str, Any], item: dict[str, Any]) -> str:
    path = path_of(item.get("uri"))
    area = item.get("selectionRange") or item.get("range")
    line = number_at(area.get("start") if isinstance(area, dict) else None, "line") + 1
    where = f"{naming.name_of(ctx, path)}:{line}" if path is not None else "somewhere"
    ranges = call.get("fromRanges")
    at = [
        str(number_at(each.get("start"), "line") + 1)
        for each in (ranges[:MAX_PLACES] if isinstance(ranges, list) else ())
        if isinstance(each, dict)
    ]
    places = f", at line {', '.join(dict.fromkeys(at))}" if at else ""
    name = item.get("name")
    return f"- {kind_name(item.get('kind'))} {one_line(name, 200) if isinstance(name, str) else '?'} ({where}{places})"
