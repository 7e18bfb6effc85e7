"""What comes from the web, made readable."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from bullpen.errors import ToolFailed
from bullpen.net.pages import Pages, body_of, cut, decode
from bullpen.system.processes import Processes

PAGE = """<!doctype html><html><head><title>T</title><style>x{}</style></head><body class="c">
<nav><a href="/n">Menu</a></nav><h1>Größe</h1><p>a <b>b</b> <a href="/x">c</a></p>
<img src="data:image/png;base64,AAAAAAAA" alt="pic"><script>alert(1)</script><footer>Foot</footer></body></html>"""


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    async with Processes() as processes:
        yield Pages(processes)


async def test_html_becomes_markdown(pages: Pages) -> None:
    """Without what is no text, and without the data of pictures."""
    text = await pages.read(PAGE.encode(), "text/html; charset=utf-8", form="markdown")
    assert text == "[Menu](/n)\n\n# Größe\n\na **b** [c](/x)\n\n![pic](data:)\n\nFoot"


async def test_only_the_content_of_a_page(pages: Pages) -> None:
    text = await pages.read(PAGE.encode(), "text/html", form="markdown", content_only=True)
    assert text == "# Größe\n\na **b** [c](/x)\n\n![pic](data:)"


async def test_html_becomes_text_or_stays_what_it_is(pages: Pages) -> None:
    assert "Größe\n\na b c" in await pages.read(PAGE.encode(), "text/html", form="text")
    assert (await pages.read(PAGE.encode(), "text/html", form="html")).startswith("<nav>")


async def test_json_is_laid_out(pages: Pages) -> None:
    """Also a kind of its own; what only claims to be JSON, or is nested without end, stays as it came."""
    assert await pages.read(b'{"a":[1]}', "application/json", form="text") == '{\n  "a": [\n    1\n  ]\n}'
    assert await pages.read(b'{"a":1}', "application/ld+json", form="text") == '{\n  "a": 1\n}'
    assert await pages.read(b"{nope", "application/json", form="text") == "{nope"
    deep = "[" * 200_000
    assert await pages.read(deep.encode(), "application/json", form="text") == deep


@pytest.mark.parametrize(
    "kind", ["image/png", "application/pdf", "application/zip", "application/octet-stream", ""]
)
async def test_what_is_no_text_is_for_download(pages: Pages, kind: str) -> None:
    with pytest.raises(ToolFailed, match="use download"):
        await pages.read(b"\x89PNG\r\n\x1a\n\0\0\xff", kind, form="text")


async def test_text_of_an_unknown_kind_is_text(pages: Pages) -> None:
    assert await pages.read("Zürich".encode(), "application/octet-stream", form="text") == "Zürich"


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        ("Zürich €".encode(), "text/plain"),
        ("Zürich €".encode("cp1252"), "text/plain"),
        ("Zürich €".encode("cp1252"), "text/plain; charset=ISO-8859-1"),
        ("Zürich €".encode("utf-16"), "text/plain"),
        ("Zürich €".encode("utf-8-sig"), "text/plain"),
        ("Zürich €".encode("iso8859-15"), 'text/plain; charset="ISO-8859-15"'),
        ("Zürich €".encode(), "text/plain; charset=no-such-thing"),
        ("Zürich €".encode(), "text/plain; charset=hex"),
    ],
)
def test_characters_are_what_they_were(content: bytes, content_type: str) -> None:
    assert decode(content, content_type) == "Zürich €"


def test_a_page_may_say_its_own_characters() -> None:
    assert "日本" in decode('<meta charset="shift_jis"><p>日本'.encode("shift_jis"), "text/html")


def test_what_is_cut_is_cut_between_characters() -> None:
    for limit in range(1, 12):
        text, is_cut = cut("日本語!", limit)
        assert is_cut == (limit < 10)
        assert "\ufffd" not in text


def test_a_body_is_found_in_any_page() -> None:
    assert body_of("<BODY a=b> x </BODY>") == "x"
    assert body_of("just text") == "just text"
    assert body_of("<body>open") == "open"


@pytest.mark.parametrize(
    "bomb",
    ["<div>" * 200_000, "<b><blockquote>" * 100_000, "<" * 1_000_000, "<table><tr>" + "<td>x" * 50_000],
)
async def test_a_page_made_to_hold_us_up_does_not(pages: Pages, bomb: str) -> None:
    """However long its conversion takes, the loop goes on; a cancel ends it."""
    ended = anyio.Event()

    async def read() -> None:
        try:
            await pages.read(bomb.encode(), "text/html", form="markdown")
        finally:
            ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        for _ in range(50):
            await anyio.sleep(0.001)
        group.cancel_scope.cancel()
    assert ended.is_set()


async def test_a_converter_that_dies_leaves_the_source(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is too much for the time it is given: the model gets what there is, and is told so."""
    monkeypatch.setattr("bullpen.net.pages.CONVERT_S", 0.0)
    text = await pages.read(b"<html><body><p>x", "text/html", form="markdown")
    assert text == "(The page could not be converted; this is its source.)\n\n<p>x"
