"""X-17: addresses and answers that want to be led inside, or to hold us up."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.conftest import Figure
from tests.internet import PUBLIC, Asked, Site, World, Write, answer, redirect
from tests.net.conftest import Web

from bullpen.errors import ToolFailed
from bullpen.net.exchange import Limits
from bullpen.net.urls import Url

LINES: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("hostile_urls.jsonl").read_text().splitlines()
]


async def agrees(url: Url) -> None:
    """A person who says yes to every redirect."""


async def test_no_hostile_address_reaches_the_inside(web: Web, world: World, figure: Figure) -> None:
    """All are refused with words, no connection goes anywhere but to the public address, and the canary sees nobody."""
    world.answers["inside.evil.test"] = [["10.0.0.1"]]
    for line in LINES:
        host = line["url"].partition("://")[2].partition("/")[0]
        if "answers" in line:
            world.answers[host] = list(line["answers"])
        with pytest.raises(ToolFailed) as refused:
            await web.get(line["url"], moved=agrees)
        assert str(refused.value), line
    assert world.canary.connections == 0
    assert {host for host, _ in world.dialled} == {PUBLIC}
    assert len(LINES) >= 150
    figure("X-17", "ATTK", f"0 connections to the inside from {len(LINES)} addresses")


async def test_the_canary_would_have_sung(web: Web, world: World) -> None:
    """The same world lets a place through that the config names, and only on its port."""
    reply, body = await web.get("http://127.0.0.1:8080/", allowed=[("127.0.0.1", 8080)])
    assert (reply.status, body, world.canary.connections) == (200, b"the inside", 1)
    with pytest.raises(ToolFailed, match="allow_private"):
        await web.get("http://127.0.0.1:8081/", allowed=[("127.0.0.1", 8080)])


async def test_a_redirect_asks_before_anything_is_sent(web: Web, world: World) -> None:
    """Not even the name is looked up for a place that was refused."""
    world.site.pages["/out"] = redirect("http://evil.test/?stolen")

    async def refuses(url: Url) -> None:
        raise ToolFailed(f"no to {url}")

    with pytest.raises(ToolFailed, match=r"no to http://evil.test/\?stolen"):
        await web.get("http://site.test/out", moved=refuses)
    assert world.asked == ["site.test"]
    with pytest.raises(ToolFailed, match=r"redirects to another place, http://evil.test/\?stolen"):
        await web.get("http://site.test/out")


async def test_a_step_down_from_https_is_another_place(web: Web, world: World) -> None:
    """What was to be encrypted does not go on in the open unasked; the way up is free."""
    world.secure.pages["/down"] = redirect("http://site.test/")
    world.site.pages["/up"] = redirect("https://site.test/")
    with pytest.raises(ToolFailed, match="another place"):
        await web.get("https://site.test/down")
    reply, _ = await web.get("http://site.test/up")
    assert str(reply.url) == "https://site.test/"


async def test_what_was_meant_for_one_place_goes_to_no_other(web: Web, world: World) -> None:
    """Headers of a request, such as a key, end with the place that they were for."""
    world.site.pages["/out"] = redirect("http://other.test/")
    await web.get("http://site.test/out", moved=agrees, headers={"X-Key": "secret"})
    first, second = world.site.asked
    assert first.headers["x-key"] == "secret"
    assert "x-key" not in second.headers


async def test_nothing_of_the_user_is_in_a_request(
    web: Web, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No stored login, no cookie from the answer before, no proxy from the environment."""
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine site.test login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    world.site.pages["/cookie"] = answer(status="302 Found", location="/", set_cookie="id=1; Path=/")
    await web.get("http://site.test/cookie")
    assert [set(asked.headers) for asked in world.site.asked] == [
        {"host", "user-agent", "accept", "accept-language", "accept-encoding", "connection"}
    ] * 2


async def test_at_most_five_redirects_are_followed(web: Web, world: World) -> None:
    with pytest.raises(ToolFailed, match="More than 5 redirects"):
        await web.get("http://site.test/again")
    assert world.site.connections == 6


async def test_a_certificate_for_another_name_is_refused(web: Web, world: World) -> None:
    """The connection goes to the address that was checked, but it has to be the host that was meant."""
    reply, body = await web.get("https://site.test/")
    assert (str(reply.url), body) == ("https://site.test/", b"hello")
    with pytest.raises(ToolFailed, match="certificate is not valid"):
        await web.get("https://other.test/")


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


BOMB = gzip.compress(bytes(50_000_000))
HEAD = b"HTTP/1.1 200 OK\r\n"

ANSWERS: dict[str, bytes] = {
    "gzip bomb": answer(BOMB, content_encoding="gzip"),
    "deflate bomb": answer(zlib.compress(bytes(50_000_000)), content_encoding="deflate"),
    "bomb in a bomb": answer(gzip.compress(BOMB), content_encoding="gzip, gzip"),
    "packing nobody asked for": answer(b"x", content_encoding="br"),
    "not packed at all": answer(b"plain", content_encoding="gzip"),
    "packed and cut": answer(gzip.compress(b"x" * 1000)[:-9], content_encoding="gzip"),
    "too long by its own words": HEAD + b"content-length: 99999999999\r\n\r\nx",
    "shorter than it says": HEAD + b"content-length: 100\r\n\r\nx",
    "two lengths": HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\nxy",
    "negative length": HEAD + b"content-length: -1\r\n\r\nx",
    "length in words": HEAD + b"content-length: many\r\n\r\nx",
    "huge header": HEAD + b"x: " + b"a" * 300_000 + b"\r\n\r\n",
    "many headers": HEAD + b"x: y\r\n" * 60_000 + b"\r\n",
    "no HTTP": b"220 mail.test ESMTP\r\n",
    "nothing": b"",
    "a bad chunk": HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\nx",
    "a huge chunk": HEAD + b"transfer-encoding: chunked\r\n\r\nfffffffffffffff\r\nx",
    "cut within chunks": HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunked(b"x"),
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
    "a redirect to nowhere": redirect(""),
    "a redirect without end": redirect("http://" + "a" * 9000),
    "an error": answer(b"broken", "500 Internal Server Error"),
    "nothing to see": answer(status="204 No Content"),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_hostile_answer_is_a_failure_with_words(web: Web, world: World, name: str) -> None:
    """Whatever comes: an error for the model, and the connection is gone."""
    world.site.pages["/x"] = ANSWERS[name]
    with pytest.raises(ToolFailed):
        await web.get("http://site.test/x")


async def test_an_endless_answer_ends_at_the_limit(web: Web, world: World) -> None:
    async def endless(asked: Asked, write: Write) -> None:
        await write(HEAD + b"\r\n")
        while True:
            await write(b"x" * 65536)

    world.site.pages["/x"] = endless
    with pytest.raises(ToolFailed, match="larger than 1000000 bytes"):
        await web.get("http://site.test/x", limits=Limits(max_bytes=1_000_000))
    await world.site.hung_up.wait()


async def test_a_slow_drip_ends_with_the_time(web: Web, world: World) -> None:
    """The limit is for the whole, so one byte now and then does not stretch it."""

    async def drip(asked: Asked, write: Write) -> None:
        await write(HEAD + b"\r\n")
        while True:
            await write(b"x")
            await asyncio.sleep(0.01)

    world.site.pages["/x"] = drip
    with pytest.raises(ToolFailed, match=r"not there within 0\.3 seconds"):
        await web.get("http://site.test/x", limits=Limits(time_s=0.3))
    await world.site.hung_up.wait()


@pytest.mark.parametrize("silent_from", ["the beginning", "the middle"])
async def test_a_cancel_closes_the_connection(web: Web, world: World, silent_from: str) -> None:
    """Wherever the server is in its answer, it sees us leave."""
    reached = asyncio.Event()

    site = Site()
    gone = asyncio.Event()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if silent_from == "the middle":
            writer.write(HEAD + b"\r\nhalf")
            await writer.drain()
        reached.set()
        assert await reader.read() == b""
        gone.set()
        writer.close()

    server = await asyncio.start_server(watch, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    world.site = site
    async with anyio.create_task_group() as group:
        group.start_soon(web.get, "http://site.test/x")
        await reached.wait()
        group.cancel_scope.cancel()
    await gone.wait()
    server.close()


async def test_a_head_without_an_end_is_not_read_to_it(web: Web) -> None:
    """Reading thousands of header lines would hold the loop."""
    web.world.site.pages["/head"] = b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 20_000 + b"\r\nhello"
    with pytest.raises(ToolFailed, match="head of its answer is longer"):
        await web.get("http://site.test/head")
