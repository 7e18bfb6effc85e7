"""A request's body has a time that grows with what is there: honest slowness is served, a drip is not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.timeloop import TimeLoop, advance
from tests.server.fake_host import FakeHost, app_of
from tests.server.raw import Client2, Serving, serving

from bullpen.server.exchange import BODY_BYTES_PER_S, BODY_S

HEAD = "POST /v1/workspaces/w1/sessions HTTP/1.1\nHost: a\nContent-Length: {}\n\n"
BODY = b'{"title": "Slow"}'


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": TimeLoop}


async def reached(here: Serving) -> None:
    """Let the server read what was sent: an answer on another connection comes after it."""
    await here.ask("GET /v1/health HTTP/1.1\nHost: a\n\n")


async def test_a_body_that_drips_in_is_late() -> None:
    """One byte at a time: it is told so, and the connection ends."""
    async with serving(app_of(FakeHost())) as here:
        client = await here.connect()
        client.send(HEAD.format(len(BODY)))
        for byte in BODY[:4]:
            client.send(bytes([byte]))
            await reached(here)
            await advance(BODY_S / 4)
        answer = await client.answer()
        assert (answer.status, answer.json()["code"]) == (408, "too_slow")
        assert await client.ended()


async def test_a_body_that_drips_in_on_http_2_is_late() -> None:
    """Its stream gets the answer; the others on the connection go on."""
    async with serving(app_of(FakeHost())) as here:
        client = Client2(await here.connect())
        stream = client.conn.get_next_available_stream_id()
        pseudo = [(":method", "POST"), (":scheme", "http"), (":authority", "a")]
        client.conn.send_headers(stream, [*pseudo, (":path", "/v1/workspaces/w1/sessions")])
        client.conn.send_data(stream, BODY[:1])
        client.flush()
        await reached(here)
        await advance(BODY_S)
        answer = await client.answer(stream)
        assert (answer.status, answer.json()["code"]) == (408, "too_slow")
        assert (await client.answer(client.request("/v1/health"))).status == 200


async def test_a_long_body_has_longer() -> None:
    """What has come counts: the second half may take as long as its first half allows."""
    extra_s = 5
    body = BODY + b" " * BODY_BYTES_PER_S * extra_s
    async with serving(app_of(FakeHost())) as here:
        client = await here.connect()
        client.send(HEAD.format(len(body)))
        client.send(body[:-1])
        await reached(here)
        await advance(BODY_S + extra_s - 1)
        client.send(body[-1:])
        assert (await client.answer()).status == 200
