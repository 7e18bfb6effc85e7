"""Public code, searched through the same guard as the web."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trustme
from tests.internet import Site, World, answer, serving
from tests.tools.conftest import Asked, Bench

from bullpen.net.fetching import Fetcher
from bullpen.tools.base import PermissionDenied, Reach

GRAPHQL = "/.api/graphql"


def found(*files: dict[str, Any], **more: Any) -> bytes:
    results = {"matchCount": len(files), "limitHit": False, "alert": None, "results": files} | more
    return answer(
        json.dumps({"data": {"search": {"results": results}}}).encode(), content_type="application/json"
    )


def match(path: str, content: str, *lines: int) -> dict[str, Any]:
    return {
        "__typename": "FileMatch",
        "repository": {"name": "github.com/o/r"},
        "file": {"path": path, "url": f"/github.com/o/r/-/blob/{path}", "content": content},
        "lineMatches": [{"lineNumber": n} for n in lines],
    }


@pytest.fixture
async def coded(
    bench: Bench, world: World, authority: trustme.CA, trust: ssl.SSLContext
) -> AsyncIterator[Bench]:
    """A Sourcegraph of our own, with a certificate for its name."""
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("sourcegraph.com").configure_cert(shown)
    async with serving(Site(), shown) as world.secure:
        bench.connect(lambda allowed: Fetcher(world.guard(*allowed), trust=trust))
        yield bench


async def test_files_are_shown_with_their_surroundings(coded: Bench, world: World) -> None:
    text = "\n".join(f"line {n}" for n in range(1, 101))
    world.secure.pages[GRAPHQL] = found(match("a.py", text, 1, 3, 50), limitHit=True, matchCount=77)
    outcome = await coded.call("sourcegraph", query="lang:python x", count=5, context_window=1, timeout=100)
    assert outcome.content == (
        "# 77 matches, and there are more; 1 files are shown\n\n"
        "## github.com/o/r/a.py\n\nhttps://sourcegraph.com/github.com/o/r/-/blob/a.py\n\n"
        "```\n     1|line 1\n     2|line 2\n     3|line 3\n     4|line 4\n     5|line 5\n```\n\n"
        "```\n    50|line 50\n    51|line 51\n    52|line 52\n```"
    )
    assert outcome.metadata == {"number_of_matches": 77, "truncated": False}
    [asked] = world.secure.asked
    assert (asked.method, asked.target) == ("POST", GRAPHQL)
    assert json.loads(asked.body)["variables"] == {"query": "lang:python x count:5 timeout:100s"}


async def test_the_query_is_asked_for_before_anything_is_sent(coded: Bench, world: World) -> None:
    """The host is one that somebody has to agree to, and what may be data is said."""

    def refuse(asked: Asked) -> None:
        raise PermissionDenied

    coded.on_permit = refuse
    query = "aGVsbG8" * 20
    assert (await coded.call("sourcegraph", query=query)).is_error
    assert (world.asked, world.dialled) == ([], [])
    [asked] = coded.asked
    assert (asked.action, asked.reach) == ("search", Reach(hosts=("sourcegraph.com",)))
    assert query in asked.description
    assert "140 characters and a long run that may be encoded data" in asked.description


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (answer(b'{"errors": [{"message": "no such filter"}]}'), "refused the query: no such filter"),
        (answer(b"<html>"), "not known"),
        (answer(b"[" * 100_000), "not known"),
        (answer(b'{"data": null}'), "simpler words"),
        (answer(b"", "503 Busy"), "status 503"),
        (answer(b"", "302 Found", location="https://evil.test/"), "not followed"),
        (found(), "Nothing was found"),
        (found(alert={"title": "No repositories", "description": None}), "No repositories."),
    ],
)
async def test_other_answers_are_told(coded: Bench, world: World, page: bytes, words: str) -> None:
    world.secure.pages[GRAPHQL] = page
    assert words in (await coded.call("sourcegraph", query="x")).content


@pytest.mark.parametrize(
    "wrong", [{"query": " "}, {"query": "x", "count": -1}, {"query": "x", "timeout": -1}]
)
async def test_wrong_arguments_are_told(coded: Bench, world: World, wrong: dict[str, Any]) -> None:
    assert (await coded.call("sourcegraph", **wrong)).is_error
    assert coded.asked == []
