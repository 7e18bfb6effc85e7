"""Find all places at which a symbol is used."""

from __future__ import annotations

from msgspec import Struct

from bullpen.errors import ToolFailed
from bullpen.lsp import symbols
from bullpen.lsp.symbols import Location, Texts
from bullpen.tools import naming
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.naming import Name, Where

METHOD = "textDocument/references"
MAX_SHOWN = 200
TIMEOUT_S = 10.0

DESCRIPTION = f"""\
Find all places at which a symbol is used, by what it means and not by its spelling: better than grep before a change of \
functions, classes, types or variables. At most {MAX_SHOWN} places are listed. Names that are common need the file in which the one \
that is meant stands (`path`)."""


class LspReferencesParams(Struct, frozen=True):
    symbol: Name
    path: Where = ""


@tool("lsp_references", DESCRIPTION, effects=False, lsp=True)
async def lsp_references(params: LspReferencesParams, ctx: ToolContext) -> Outcome:
    symbol = await naming.locate(ctx, params.symbol, params.path, METHOD)
    await symbol.everywhere(ctx, params.symbol)
    answer = await symbol.ask(METHOD, TIMEOUT_S, context={"includeDeclaration": True})
    found = symbols.locations(answer)
    if not found:
        raise ToolFailed(f"the language server knows {params.symbol!r}, but no place at which it is used")
    by_file: dict[str, list[Location]] = {}
    for location in found:
        by_file.setdefault(naming.name_of(ctx, location.path), []).append(location)
    texts = Texts(ctx.lsp.root, symbol.client.encoding)
    lines = [f"Found {_count(len(found), 'reference')} in {_count(len(by_file), 'file')}:"]
    left = MAX_SHOWN
    for name, locations in sorted(by_file.items()):
        if left <= 0:
            break
        lines.append(f"\n{name} ({_count(len(locations), 'reference')}):")
        for location in locations[:left]:
            place, line = await naming.shown(ctx, location, texts)
            lines.append(f"  {_numbers(place, name)}: {line}")
        left -= len(locations)
    if left < 0:
        lines.append(f"\n(There are more; {MAX_SHOWN} are shown.)")
    return Outcome(content="\n".join(lines), is_cut=left < 0)


def _numbers(place: str, name: str) -> str:
    line, _, column = place.removeprefix(f"{name}:").partition(":")
    return f"Line {line}, Column {column}" if column else f"Line {line}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
