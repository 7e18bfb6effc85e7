"""Errands to the web: what is asked once, what is free then, and what is asked about again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.internet import World, answer, redirect
from tests.tools.conftest import Asked, Bench

from bullpen.config.shape import WebSearch
from bullpen.tools.agentic_fetch import AGENT
from bullpen.tools.base import PermissionDenied, Reach
from bullpen.tools.errands import INLINE_BYTES, Errand

PAGE = b"""<html><body><nav><a href="/menu">menu</a></nav><h1>Title</h1><p>See <a href="/next?a=1">next</a>,
<a href="http://other.test/x">other</a> and <a href="javascript:x">trap</a>.</p></body></html>"""

RESULTS = b"""<a class='result-link' href="http://found.test/page">Found</a>"""


@pytest.fixture
def errand(online: Bench, tmp_path: Path) -> Errand:
    """The bench as the sub-agent sees it."""
    (tmp_path / "scratch").mkdir()
    online.errand = Errand(agent=AGENT, directory=tmp_path / "scratch")
    return online.errand


async def test_one_approval_for_prompt_address_and_engine(online: Bench, world: World) -> None:
    """It shows all that leaves; a refusal sends nothing."""

    def refuse(asked: Asked) -> None:
        raise PermissionDenied

    online.on_permit = refuse
    assert (await online.call("agentic_fetch", prompt="Which?", url="http://site.test/p")).is_error
    assert (world.asked, online.sent) == ([], None)
    assert online.asked == [
        Asked(
            "fetch",
            {"url": "http://site.test/p", "prompt": "Which?"},
            online.root,
            "Fetch http://site.test/p and research on the web, searching at lite.duckduckgo.com: Which?",
            Reach(hosts=("site.test", "lite.duckduckgo.com")),
        )
    ]


async def test_the_sub_agent_begins_with_the_page_and_its_folder_is_gone_afterwards(
    online: Bench, world: World
) -> None:
    world.site.pages["/p"] = answer(PAGE, content_type="text/html")
    was_there: list[bool] = []

    def delegate(prompt: str) -> str:
        assert online.sent is not None
        was_there.append(online.sent.directory.is_dir())
        return f"got {prompt}"

    online.on_delegate = delegate
    outcome = await online.call("agentic_fetch", prompt="Which?", url="http://site.test/p")
    assert outcome.content.startswith(
        "got Which?\n\nThis is http://site.test/p:\n\n<webpage_content>\n# Title"
    )
    assert "menu" not in outcome.content
    assert len(online.asked) == 1
    assert online.sent is not None
    assert (was_there, online.sent.directory.exists()) == ([True], False)
    assert online.sent.agent.title == "Fetch Analysis"
    assert online.sent.known == {"http://site.test/p", "http://site.test/next?a=1", "http://other.test/x"}


async def test_a_page_that_cannot_be_read_is_told_to_the_sub_agent(online: Bench) -> None:
    outcome = await online.call("agentic_fetch", prompt="Which?", url="http://site.test/missing")
    assert "http://site.test/missing could not be read" in outcome.content


async def test_without_an_address_the_sub_agent_searches(online: Bench) -> None:
    outcome = await online.call("agentic_fetch", prompt="Which?")
    assert outcome.content == "answer to Which?"
    assert online.asked[0].reach.hosts == ("lite.duckduckgo.com",)
    assert (await online.call("agentic_fetch", prompt=" ")).is_error


async def test_what_a_search_found_is_read_without_asking(
    online: Bench, world: World, errand: Errand
) -> None:
    online.search = WebSearch(base_url="http://site.test")
    world.site.pages["/lite/"] = answer(RESULTS, content_type="text/html")
    world.site.pages["/page"] = answer(PAGE, content_type="text/html")
    assert "http://found.test/page" in (await online.call("web_search", query="x")).content
    assert (await online.call("web_fetch", url="http://found.test/page")).content.startswith("# Title")
    assert "http://found.test/next?a=1" in errand.known
    assert online.asked == []


async def test_an_address_of_its_own_making_is_asked_about(
    online: Bench, world: World, errand: Errand
) -> None:
    """Also at a host that it may read: the query could carry anything."""
    errand.learn("http://found.test/page")
    await online.call("web_fetch", url="http://found.test/page?q=secret")
    await online.call("web_fetch", url="http://evil.test/")
    assert [a.params["url"] for a in online.asked] == ["http://found.test/page?q=secret", "http://evil.test/"]


async def test_a_redirect_elsewhere_is_asked_about(online: Bench, world: World, errand: Errand) -> None:
    errand.learn("http://found.test/go")
    world.site.pages["/go"] = redirect("http://evil.test/")
    await online.call("web_fetch", url="http://found.test/go")
    assert [a.reach.hosts for a in online.asked] == [("evil.test",)]


async def test_a_long_page_is_laid_down_as_a_file(online: Bench, world: World, errand: Errand) -> None:
    errand.learn("http://found.test/long")
    text = "word " * INLINE_BYTES
    world.site.pages["/long"] = answer(text.encode(), content_type="text/plain")
    for number in (1, 2):
        outcome = await online.call("web_fetch", url="http://found.test/long")
        assert str(errand.directory / f"page-{number}.md") in outcome.content
    assert (errand.directory / "page-2.md").read_text().strip() == text.strip()


async def test_a_link_in_the_folder_is_not_followed(online: Bench, errand: Errand, tmp_path: Path) -> None:
    target = tmp_path / "outside" / "victim"
    (errand.directory / "page-1.md").symlink_to(target)
    assert errand.lay_down("text") == errand.directory / "page-2.md"
    assert not target.exists()
