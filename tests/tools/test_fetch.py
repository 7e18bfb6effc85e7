"""Pages of the web, asked for and made readable."""

from __future__ import annotations

import pytest
from tests.internet import World, answer, redirect
from tests.tools.conftest import Asked, Bench

from bullpen.tools.base import PermissionDenied, Reach

HTML = b"<html><body><h1>Title</h1><p>Some <b>words</b>.</p></body></html>"


async def test_a_page_comes_as_markdown_in_a_fence(online: Bench, world: World) -> None:
    world.secure.pages["/page"] = answer(HTML, content_type="text/html")
    outcome = await online.call("fetch", url="https://site.test/page", format="markdown")
    assert outcome.content == "```markdown\n# Title\n\nSome **words**.\n```"
    assert outcome.metadata == {
        "url": "https://site.test/page",
        "content_type": "text/html",
        "bytes": len(HTML),
    }


async def test_the_whole_address_is_asked_for(online: Bench, world: World) -> None:
    """Before anything is sent, also to name servers; in the form in which it is sent."""

    def refuse(asked: Asked) -> None:
        assert world.asked == []
        raise PermissionDenied

    online.on_permit = refuse
    outcome = await online.call("fetch", url="HTTPS://Site.test:8443/a?b=ä", format="text", timeout=9)
    assert outcome.is_error
    assert (world.asked, world.dialled) == ([], [])
    assert online.asked == [
        Asked(
            "fetch",
            {"url": "https://site.test:8443/a?b=%C3%A4", "format": "text", "timeout": 9},
            online.root,
            "Fetch content from https://site.test:8443/a?b=%C3%A4",
            Reach(hosts=("site.test:8443",)),
        )
    ]


async def test_a_redirect_to_another_host_is_asked_for_again(online: Bench, world: World) -> None:
    """Agreeing to one host is not agreeing to the next."""
    world.site.pages["/go"] = redirect("http://other.test/landing")
    world.site.pages["/landing"] = answer(b"there", content_type="text/plain")
    outcome = await online.call("fetch", url="http://site.test/go", format="text")
    assert outcome.content == "there"
    assert [(a.params["url"], a.reach.hosts) for a in online.asked] == [
        ("http://site.test/go", ("site.test",)),
        ("http://other.test/landing", ("other.test",)),
    ]
    assert "to which the first address redirects" in online.asked[1].description


async def test_what_may_be_data_is_said_in_the_ask(online: Bench) -> None:
    await online.call("fetch", url=f"http://site.test/?q={'secret+' * 30}", format="text")
    assert "a query of 212 characters" in online.asked[0].description
    assert "not encrypted" in online.asked[0].description


async def test_a_long_page_is_cut_after_it_was_made_readable(online: Bench, world: World) -> None:
    """At its end, between characters, with a note; what is not shown was no reason to fail."""
    world.site.pages["/long"] = answer(("<p>" + "日本語 " * 60_000).encode(), content_type="text/html")
    outcome = await online.call("fetch", url="http://site.test/long", format="text")
    assert outcome.is_cut
    assert outcome.content.startswith("日本語 日本語")
    assert "(Cut here: 102400 of " in outcome.content
    assert "\ufffd" not in outcome.content


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("site.test", "begin with https://"),
        ("http://127.0.0.1/", "allow_private"),
        ("http://site.test/missing", "status 404"),
        ("file:///etc/passwd", "not file"),
    ],
)
async def test_what_cannot_be_fetched_says_why(online: Bench, world: World, url: str, words: str) -> None:
    outcome = await online.call("fetch", url=url, format="text")
    assert outcome.is_error
    assert words in outcome.content
    assert world.canary.connections == 0


async def test_a_place_inside_that_the_config_names_is_fetched(online: Bench, world: World) -> None:
    online.limits = {"fetch": {"allow_private": ["wiki.lan:8080"]}}
    world.answers["wiki.lan"] = [["10.0.0.5"]]
    outcome = await online.call("fetch", url="http://wiki.lan:8080/", format="text")
    assert outcome.content == "the inside"
    assert world.dialled == [("10.0.0.5", 8080)]


async def test_a_wrong_rule_is_told(online: Bench) -> None:
    online.limits = {"fetch": {"allow_private": ["10.0.0.0/8"]}}
    outcome = await online.call("fetch", url="http://site.test/", format="text")
    assert "tools.fetch.allow_private in the config is wrong" in outcome.content
