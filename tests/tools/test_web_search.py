"""Searches, asked of servers that speak as the search engines do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.internet import World, answer
from tests.tools.conftest import Asked, Bench

from bullpen.config.shape import WebSearch
from bullpen.tools.base import PermissionDenied, Reach

LITE = b"""<html><body><form action="/lite/" method="post"><input name="q" value="x"></form><table>
<tr><td valign="top">1.&nbsp;</td><td><a rel="nofollow" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fone.test%2Fa%3Fb%3D1&amp;rut=abc"
 class='result-link'>The <b>first</b> &amp; best</a></td></tr>
<tr><td>&nbsp;</td><td class='result-snippet'>What it <b>says</b>
 there.</td></tr>
<tr><td>&nbsp;</td><td><span class='link-text'>one.test/a</span></td></tr>
<tr><td>2.</td><td><a class='result-link' href="https://two.test/">Second</a></td></tr>
<tr><td>3.</td><td><a class='result-link' href="https://one.test/a?b=1">Again</a></td></tr>
<tr><td>4.</td><td><a class='result-link' href="javascript:alert(1)">Trap</a></td></tr>
</table></body></html>"""

TOLD = "1. The first & best\n   https://one.test/a?b=1\n   What it says there.\n\n2. Second\n   https://two.test/"

LISTED: list[dict[str, Any]] = [
    {"title": "The first & best", "url": "https://one.test/a?b=1", "content": "What it\nsays there."},
    {"title": "Second", "url": "https://two.test/", "content": None, "engine": "x"},
    {"title": "Trap", "url": "file:///etc/passwd", "content": ""},
]

BASE = "https://site.test"


def spoken(value: Any) -> bytes:
    return answer(json.dumps(value).encode(), content_type="application/json")


async def test_duckduckgo_needs_no_key(online: Bench, world: World) -> None:
    online.search = WebSearch(provider="duckduckgo", base_url=BASE)
    world.secure.pages["/lite/"] = answer(LITE, content_type="text/html; charset=utf-8")
    outcome = await online.call("web_search", query="two  words")
    assert (outcome.content, outcome.metadata) == (TOLD, {"number_of_results": 2})
    assert [asked.target for asked in world.secure.asked] == ["/lite/?q=two+words"]


async def test_searxng(online: Bench, world: World) -> None:
    online.search = WebSearch(provider="searxng", base_url=f"{BASE}/sx/")
    world.secure.pages["/sx/search"] = spoken({"query": "x", "results": LISTED, "answers": []})
    assert (await online.call("web_search", query="x&y")).content == TOLD
    [asked] = world.secure.asked
    assert asked.target == "/sx/search?q=x%26y&format=json"
    assert "authorization" not in asked.headers


async def test_brave(online: Bench, world: World) -> None:
    online.search = WebSearch(provider="brave", base_url=f"{BASE}/res/v1", api_key="canary-key")
    results = [{**each, "description": each["content"], "content": None} for each in LISTED]
    world.secure.pages["/res/v1/web/search"] = spoken({"type": "search", "web": {"results": results}})
    assert (await online.call("web_search", query="x", max_results=5)).content == TOLD
    [asked] = world.secure.asked
    assert asked.target == "/res/v1/web/search?q=x&count=5"
    assert asked.headers["x-subscription-token"] == "canary-key"


async def test_tavily(online: Bench, world: World) -> None:
    online.search = WebSearch(provider="tavily", base_url=BASE, api_key="canary-key")
    world.secure.pages["/search"] = spoken({"query": "x", "results": LISTED, "response_time": 1.0})
    assert (await online.call("web_search", query="x", max_results=1)).content == TOLD.split(
        "\n\n", maxsplit=1
    )[0]
    [asked] = world.secure.asked
    assert (asked.method, json.loads(asked.body)) == ("POST", {"query": "x", "max_results": 1})
    assert asked.headers["authorization"] == "Bearer canary-key"


async def test_the_query_is_asked_for_before_anything_is_sent(online: Bench, world: World) -> None:
    def refuse(asked: Asked) -> None:
        raise PermissionDenied

    online.on_permit = refuse
    assert (await online.call("web_search", query="x" * 120)).is_error
    assert world.asked == []
    [asked] = online.asked
    assert (asked.action, asked.reach) == ("search", Reach(hosts=("lite.duckduckgo.com",)))
    assert asked.params == {"query": "x" * 120, "max_results": 10}
    assert "120 characters" in asked.description


async def test_an_engine_of_ones_own_is_reached_where_it_stands(online: Bench, world: World) -> None:
    """The config names it, so it may stand inside; pages there may still not be fetched."""
    online.search = WebSearch(provider="searxng", base_url="http://search.lan:8080")
    world.answers["search.lan"] = [["10.0.0.5"]]
    world.canary.pages["/search"] = spoken({"results": LISTED})
    assert (await online.call("web_search", query="x")).content == TOLD
    outcome = await online.call("fetch", url="http://search.lan:8080/", format="text")
    assert "does not lie in the public internet" in outcome.content


@pytest.mark.parametrize(
    ("settings", "page", "words"),
    [
        (WebSearch(provider="brave"), b"", "tools.web_search.api_key"),
        (WebSearch(provider="searxng"), b"", "tools.web_search.base_url"),
        (WebSearch(provider="searxng", base_url="nowhere"), b"", "no web address"),
        (WebSearch(provider="brave", base_url="http://site.test", api_key="canary"), b"", "travel openly"),
        (WebSearch(base_url=BASE), answer(b"", "202 Accepted"), "takes no more requests"),
        (WebSearch(base_url=BASE), answer(b"<div class='anomaly-modal'>", content_type="text/html"), "takes no more"),
        (WebSearch(base_url=BASE), answer(b"<table></table>", content_type="text/html"), "Nothing was found"),
        (WebSearch(base_url=BASE), answer(b"", "500 Broken"), "site.test answered the search with status 500"),
        (WebSearch(provider="tavily", base_url=BASE, api_key="canary"), answer(b"", "401 No"), "refused the key"),
        (WebSearch(provider="searxng", base_url=BASE), answer(b"<html>no JSON"), "not known"),
    ],
)  # fmt: skip
async def test_what_goes_wrong_is_told_without_the_key(
    online: Bench, world: World, settings: WebSearch, page: bytes, words: str
) -> None:
    online.search = settings
    world.secure.pages |= dict.fromkeys(("/lite/", "/search", "/web/search"), page)
    outcome = await online.call("web_search", query="x")
    assert words in outcome.content
    assert "canary" not in outcome.content


@pytest.mark.parametrize("wrong", [{"query": " "}, {"query": "x" * 1001}, {"query": "x", "max_results": -1}])
async def test_wrong_arguments_are_told(online: Bench, wrong: dict[str, Any]) -> None:
    assert (await online.call("web_search", **wrong)).is_error
    assert online.asked == []
