"""Search engines of the web: how each is asked, and what its answer holds.

An engine is one entry of `ENGINES`. Those with a key get it in a header of the one request, so that it stands in no address, and
their answers are JSON. DuckDuckGo needs none and answers with a page, which is read by the converter's program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple
from urllib.parse import urlencode

import msgspec

from bullpen.config.shape import WebSearch
from bullpen.errors import ToolFailed
from bullpen.net import urls
from bullpen.net.exchange import Request
from bullpen.net.urls import Url, UrlRefused

MAX_TITLE = 200
MAX_SUMMARY = 500


class Hit(NamedTuple):
    title: str
    url: str
    summary: str


class Engine(NamedTuple):
    """`usual` is where it stands unless the config says otherwise; `pace_s` is how far apart it wants requests."""

    usual: str
    request: Callable[[str, str, str, int], Request]
    """Of base address, key, query and count."""
    form: Literal["json", "page"] = "json"
    needs_key: bool = False
    pace_s: float = 0.0


def engine_of(settings: WebSearch) -> tuple[Engine, str]:
    """The engine and where it stands. Raises `ToolFailed` with what the config lacks."""
    engine = ENGINES[settings.provider]
    base = (settings.base_url or engine.usual).rstrip("/")
    if not base:
        raise ToolFailed(
            f"The search engine {settings.provider} has no usual address: the user has to set tools.web_search.base_url."
        )
    if engine.needs_key and not settings.api_key:
        raise ToolFailed(
            f"The search engine {settings.provider} needs a key: the user has to set tools.web_search.api_key."
        )
    try:
        place = urls.parse(base)
    except UrlRefused as exc:
        raise ToolFailed("tools.web_search.base_url in the config is no web address.") from exc
    if settings.api_key and place.scheme == "http":
        raise ToolFailed(
            "The key of the search engine would travel openly: its base_url has to begin with https."
        )
    return engine, base


def _duckduckgo(base: str, key: str, query: str, most: int) -> Request:
    return Request(url=_address(base, "/lite/", {"q": query}))


def _brave(base: str, key: str, query: str, most: int) -> Request:
    headers = {"X-Subscription-Token": key, "Accept": "application/json"}
    return Request(url=_address(base, "/web/search", {"q": query, "count": str(most)}), headers=headers)


def _searxng(base: str, key: str, query: str, most: int) -> Request:
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    return Request(url=_address(base, "/search", {"q": query, "format": "json"}), headers=headers)


def _tavily(base: str, key: str, query: str, most: int) -> Request:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    body = msgspec.json.encode({"query": query, "max_results": most})
    return Request(url=_address(base, "/search"), method="POST", headers=headers, body=body)


def _address(base: str, path: str, query: Mapping[str, str] | None = None) -> Url:
    return urls.parse(f"{base}{path}" + (f"?{urlencode(query)}" if query else ""))


ENGINES: Mapping[str, Engine] = {
    "duckduckgo": Engine("https://lite.duckduckgo.com", _duckduckgo, form="page", pace_s=1.0),
    "brave": Engine("https://api.search.brave.com/res/v1", _brave, needs_key=True),
    "searxng": Engine("", _searxng),
    "tavily": Engine("https://api.tavily.com", _tavily, needs_key=True),
}


class _Result(msgspec.Struct, frozen=True):
    """One result of any of them: a summary has one of two names."""

    title: str | None = None
    url: str | None = None
    description: str | None = None
    content: str | None = None


class _Results(msgspec.Struct, frozen=True):
    results: tuple[_Result, ...] = ()


class _Answer(msgspec.Struct, frozen=True):
    web: _Results | None = None
    results: tuple[_Result, ...] = ()


def read_json(content: bytes) -> list[Hit]:
    """The results of an engine that answers with JSON."""
    try:
        answer = msgspec.json.decode(content, type=_Answer)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise ToolFailed("The search engine answered in a form that is not known.") from exc
    results = answer.web.results if answer.web is not None else answer.results
    return _hits((r.title or "", r.url or "", r.description or r.content or "") for r in results)


def read_page(extracted: bytes) -> list[Hit]:
    """The results that the converter found in a page."""
    return _hits(msgspec.json.decode(extracted, type=list[tuple[str, str, str]]))


def _hits(found: Iterable[tuple[str, str, str]]) -> list[Hit]:
    """In one line each, and only what leads somewhere; an address that is named twice counts once."""
    hits: dict[str, Hit] = {}
    for title, url, summary in found:
        try:
            address = str(urls.parse(url))
        except UrlRefused:
            continue
        hits.setdefault(
            address, Hit(_line(title, MAX_TITLE) or address, address, _line(summary, MAX_SUMMARY))
        )
    return list(hits.values())


def _line(text: str, most: int) -> str:
    plain = " ".join(text[: 4 * most].split())
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in plain)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
