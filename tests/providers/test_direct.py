"""The way of bytes to and from a model's host, where the providers' own tests do not look."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest
import trustme
from tests.providers.conftest import Exchange, FakeHost

from bullpen.providers.direct import UNREAD_BYTES
from bullpen.providers.http import ModelClient

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def answer(*pieces: bytes, then_close: bool = False) -> Any:
    async def give(exchange: Exchange) -> None:
        for piece in pieces:
            await exchange.send(piece)
        if then_close:
            exchange.cut()

    return give


async def test_an_answer_that_ends_with_the_connection(host: FakeHost, http: ModelClient) -> None:
    host.will(answer(b"HTTP/1.0 200 OK\r\n\r\nall ", b"of it", then_close=True))
    assert (await http.post(host.url)).content == b"all of it"


async def test_an_answer_that_promised_more(host: FakeHost, http: ModelClient) -> None:
    """A cut is no end."""
    host.will(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", then_close=True))
    with pytest.raises(httpx2.RemoteProtocolError):
        await http.post(host.url)


async def test_a_word_before_the_answer(host: FakeHost, http: ModelClient) -> None:
    """Interim answers are passed over, and the connection can be used again."""
    host.will(
        answer(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN)
    )
    for _ in range(2):
        response = await http.post(host.url)
        assert (response.status_code, response.content, "link" in response.headers) == (200, b"ok", False)
    assert host.connections == 1


async def test_an_answer_that_nobody_asked_for(host: FakeHost, http: ModelClient) -> None:
    """What follows an answer is never taken for the next one."""
    host.will(answer(PLAIN + PLAIN.replace(b"ok", b"no")), answer(PLAIN))
    assert (await http.post(host.url)).content == b"ok"
    assert (await http.post(host.url)).content == b"ok"
    assert host.connections == 2


async def test_a_kept_connection_that_the_host_closed(host: FakeHost, http: ModelClient) -> None:
    host.will(answer(PLAIN, then_close=True), answer(PLAIN))
    assert (await http.post(host.url)).content == b"ok"
    await host.exchanges[0].writer.wait_closed()
    with anyio.fail_after(5):
        while True:
            # Until the hang-up has come through; a request that meets it is refused, never answered wrongly.
            try:
                assert (await http.post(host.url)).content == b"ok"
                break
            except httpx2.TransportError:
                pass
    assert host.connections == 2


async def test_a_header_without_end(host: FakeHost, http: ModelClient) -> None:
    host.will(answer(b"HTTP/1.1 200 OK\r\n", *[b"X-A: %s\r\n" % (b"y" * 60_000)] * 8))
    with pytest.raises(httpx2.RemoteProtocolError):
        await http.post(host.url)


async def test_what_is_not_read_makes_the_host_wait(host: FakeHost, http: ModelClient) -> None:
    size = 64 * UNREAD_BYTES
    progress = 0

    async def pour(exchange: Exchange) -> None:
        nonlocal progress
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(64):
            await exchange.send(b"x" * UNREAD_BYTES)
            progress += 1

    host.will(pour)
    async with http.stream("POST", host.url) as response:
        before = -1
        while before != progress:
            before = progress
            await anyio.sleep(0.2)
        assert progress < 60
        assert sum([len(piece) async for piece in response.aiter_raw()]) == size


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b"])
async def test_no_line_is_smuggled_in(host: FakeHost, http: ModelClient, value: str) -> None:
    with pytest.raises(httpx2.LocalProtocolError):
        await http.post(host.url, headers={"X-Key": value})
    assert host.connections == 0


async def test_the_next_address_is_tried(host: FakeHost, http: ModelClient) -> None:
    """`localhost` has an address of either kind; the host listens on one of them."""
    host.will(answer(PLAIN))
    url = host.url.replace("127.0.0.1", "localhost")
    assert (await http.post(url)).content == b"ok"


async def test_nobody_is_there(http: ModelClient) -> None:
    with pytest.raises(httpx2.ConnectError):
        await http.post("http://127.0.0.1:1")
    with pytest.raises(httpx2.ConnectError):
        await http.post("http://nowhere.invalid")


@pytest.fixture
async def secure(anyio_backend: Any) -> AsyncIterator[tuple[str, trustme.CA]]:
    """A host with a certificate for `localhost`, and who signed it."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(PLAIN)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield f"https://localhost:{server.sockets[0].getsockname()[1]}", authority
    server.close()


async def test_tls(secure: tuple[str, trustme.CA]) -> None:
    url, authority = secure
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    async with ModelClient(trust) as http:
        assert (await http.post(url)).content == b"ok"
        with pytest.raises(httpx2.ConnectError, match="certificate"):
            await http.post(url.replace("localhost", "127.0.0.1"))


async def test_a_stranger_s_certificate(secure: tuple[str, trustme.CA]) -> None:
    url, _ = secure
    async with ModelClient() as http:
        with pytest.raises(httpx2.ConnectError, match="certificate"):
            await http.post(url)


async def test_a_proxy_of_the_environment(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far hosts are reached through it, this machine is not."""
    monkeypatch.setenv("http_proxy", host.url)
    host.will(answer(PLAIN))
    async with ModelClient() as http:
        assert (await http.post("http://model.example/v1")).content == b"ok"
        assert (await http.post(f"{host.url}/v1")).content == b"ok"
    assert [e.target.split()[1] for e in host.exchanges] == ["http://model.example/v1", "/v1"]


async def test_a_port_that_is_none(host: FakeHost, http: ModelClient) -> None:
    """It is not cut down to one at which somebody else listens."""
    url = httpx2.URL(host.url)
    assert url.port is not None
    host.will(answer(PLAIN))
    for ask in (http.post, lambda url: http.ask(url, [], b"")):
        with pytest.raises(httpx2.InvalidURL):
            await ask(url.copy_with(port=url.port + 65536))
    assert host.connections == 0
