"""Search public code with Sourcegraph."""

from __future__ import annotations

from typing import Annotated

import anyio
import msgspec
from msgspec import Meta, Struct

from bullpen.errors import ToolFailed
from bullpen.net import pages, urls
from bullpen.net.exchange import Limits, Request
from bullpen.tools.base import Outcome, ToolContext, tool
from bullpen.tools.going_out import ask_to_search

ENDPOINT = urls.parse("https://sourcegraph.com/.api/graphql")
DEFAULT_COUNT = 10
MAX_COUNT = 20
DEFAULT_CONTEXT = 10
MAX_CONTEXT = 100
DEFAULT_TIMEOUT_S = 30
MAX_TIMEOUT_S = 120
SHOWN_BYTES = 100 * 1024
MAX_MATCHES = 10
"""Of one file: what else is in it can be seen at its address."""

QUERY = """query Search($query: String!) { search(query: $query, version: V3, patternType: keyword) { results {
  matchCount limitHit alert { title description }
  results { __typename ... on FileMatch { repository { name } file { path url content } lineMatches { lineNumber } } } } } }"""

DESCRIPTION = f"""\
Search the code of public repositories with Sourcegraph, for examples of how a library is used or how others solved \
something. Not for this workspace: use grep there.

The query takes Sourcegraph's filters: `repo:^github\\.com/owner/name$`, `file:\\.go$`, `lang:python`, `-file:test`, \
`type:symbol`, `"exact words"`, AND, OR, NOT. Results are cut to {SHOWN_BYTES // 1024} KiB. The query leaves this machine, the user sees it \
and may refuse it; never put content of files or keys into it."""


class SourcegraphParams(Struct, frozen=True):
    query: Annotated[str, Meta(description="What to look for, with filters.")]
    count: Annotated[
        int, Meta(description=f"How many files. Default {DEFAULT_COUNT}, at most {MAX_COUNT}.")
    ] = 0
    context_window: Annotated[
        int, Meta(description=f"How many lines to show around a match. Default {DEFAULT_CONTEXT}.")
    ] = DEFAULT_CONTEXT
    timeout: Annotated[
        int, Meta(description=f"Seconds for all of it, at most {MAX_TIMEOUT_S}. Default {DEFAULT_TIMEOUT_S}.")
    ] = 0


@tool("sourcegraph", DESCRIPTION, effects=False, parallel=True, task=True)
async def sourcegraph(params: SourcegraphParams, ctx: ToolContext) -> Outcome:
    if not params.query.strip():
        raise ToolFailed("the query is empty")
    if min(params.count, params.context_window, params.timeout) < 0:
        raise ToolFailed("count, context_window and timeout cannot be negative")
    count = min(params.count or DEFAULT_COUNT, MAX_COUNT)
    timeout_s = min(params.timeout, MAX_TIMEOUT_S) or DEFAULT_TIMEOUT_S
    shown = {
        "query": params.query,
        "count": count,
        "context_window": params.context_window,
        "timeout": timeout_s,
    }
    await ask_to_search(ctx, "Search public code", params.query, host=ENDPOINT.authority, params=shown)
    body = msgspec.json.encode(
        {"query": QUERY, "variables": {"query": f"{params.query} count:{count} timeout:{timeout_s}s"}}
    )
    request = Request(
        url=ENDPOINT,
        method="POST",
        headers={"Content-Type": "application/json", "Accept": "application/json"},
        body=body,
    )
    _, content = await ctx.net.get(request, limits=Limits(time_s=timeout_s))
    answer = await anyio.to_thread.run_sync(_read, content)
    context = min(params.context_window, MAX_CONTEXT)
    text = await anyio.to_thread.run_sync(_told, answer, count, context)
    text, is_cut = pages.cut(text, SHOWN_BYTES, "Ask for fewer files or less context.")
    return Outcome(
        content=text, metadata={"number_of_matches": answer.matchCount, "truncated": is_cut}, is_cut=is_cut
    )


class _Repository(Struct, frozen=True):
    name: str = ""


class _File(Struct, frozen=True):
    path: str = ""
    url: str = ""
    content: str = ""


class _Line(Struct, frozen=True):
    lineNumber: int = 0  # noqa: N815  # The names are Sourcegraph's.


class _Match(Struct, frozen=True):
    repository: _Repository = _Repository()
    file: _File = _File()
    lineMatches: tuple[_Line, ...] = ()  # noqa: N815


class _Alert(Struct, frozen=True):
    title: str = ""
    description: str | None = None


class _Results(Struct, frozen=True):
    matchCount: int = 0  # noqa: N815
    limitHit: bool = False  # noqa: N815
    alert: _Alert | None = None
    results: tuple[_Match, ...] = ()


class _Search(Struct, frozen=True):
    results: _Results = _Results()


class _Data(Struct, frozen=True):
    search: _Search | None = None


class _Error(Struct, frozen=True):
    message: str = ""


class _Answer(Struct, frozen=True):
    data: _Data | None = None
    errors: tuple[_Error, ...] = ()


def _read(content: bytes) -> _Results:
    try:
        answer = msgspec.json.decode(content, type=_Answer)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise ToolFailed("Sourcegraph answered in a form that is not known; try again later.") from exc
    if answer.errors:
        said = "; ".join(error.message for error in answer.errors)
        raise ToolFailed(f"Sourcegraph refused the query: {said[:500]}")
    if answer.data is None or answer.data.search is None:
        raise ToolFailed("Sourcegraph gave no answer to the query; try it in simpler words.")
    return answer.data.search.results


def _told(found: _Results, count: int, context: int) -> str:
    files = [match for match in found.results if match.file.path][:count]
    more = ", and there are more" if found.limitHit else ""
    lines = [f"# {found.matchCount} matches{more}; {len(files)} files are shown"]
    if found.alert is not None and found.alert.title:
        lines.append(f"Sourcegraph says: {found.alert.title}. {found.alert.description or ''}".rstrip())
    if not files:
        lines.append("Nothing was found. Use fewer words or filters.")
    return "\n\n".join([*lines, *(_file(match, context) for match in files)])


def _file(match: _Match, context: int) -> str:
    head = f"## {match.repository.name}/{match.file.path}\n\nhttps://{ENDPOINT.host}{match.file.url}"
    text = match.file.content.splitlines()
    numbers = sorted({line.lineNumber for line in match.lineMatches if 0 <= line.lineNumber < len(text)})
    excerpts = [
        _excerpt(text, first, last, context) for first, last in _spans(numbers[:MAX_MATCHES], context)
    ]
    left = len(numbers) - MAX_MATCHES
    more = [f"({left} more matches in this file.)"] if left > 0 else []
    return "\n\n".join([head, *excerpts, *more])


def _spans(numbers: list[int], context: int) -> list[tuple[int, int]]:
    """Matches whose surroundings touch are shown together."""
    spans: list[tuple[int, int]] = []
    for number in numbers:
        if spans and number - spans[-1][1] <= 2 * context + 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return spans


def _excerpt(text: list[str], first: int, last: int, context: int) -> str:
    begin, end = max(first - context, 0), min(last + context + 1, len(text))
    shown = "\n".join(f"{number:6}|{line}" for number, line in enumerate(text[begin:end], begin + 1))
    return pages.fenced(shown)
