"""HTTP/1.1: framing of streams, limits of what a peer may send, and ends of connections."""

from __future__ import annotations

import asyncio
import socket

import pytest
from tests.server.raw import Play, serving

from bullpen.server.link import Limits


@pytest.fixture(params=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


async def test_an_event_stream_ends_with_its_connection() -> None:
    """No length, no chunks: the bytes are the events, whatever framing the application asked for."""
    play = Play()
    async with serving(play) as here:
        client = await here.connect()
        client.send("GET /events HTTP/1.1\nHost: here\n\n")
        head = await client.head()
        del head.headers["date"]
        assert (head.status, head.headers) == (
            200,
            {"content-type": "text/event-stream; charset=utf-8", "connection": "close"},
        )
        assert await client.reader.readexactly(9) == b"data: 1\n\n"
        play.release.set()
        assert await client.reader.read() == b"data: 2\n\n"


async def test_the_head_of_an_event_stream_has_no_body() -> None:
    play = Play()
    play.release.set()
    async with serving(play) as here:
        answer = await here.ask("HEAD /events HTTP/1.1\nHost: here\n\n")
        assert (answer.headers["connection"], answer.body) == ("close", b"")


async def test_other_answers_keep_the_connection() -> None:
    """A known length is counted, an unknown one goes in chunks, and the next request is served."""
    async with serving(Play()) as here:
        client = await here.connect()
        client.send("GET /a HTTP/1.1\nHost: here\n\n")
        assert (await client.answer()).headers["content-length"] == "13"
        client.send("POST /echo HTTP/1.1\nHost: here\nContent-Length: 3\n\nabc")
        answer = await client.answer()
        assert answer.headers["transfer-encoding"] == "chunked"
        assert answer.json() == {"bytes": 3, "fields": 2}


async def test_http_1_0_gets_no_chunks() -> None:
    async with serving(Play()) as here:
        answer = await here.ask("GET /echo HTTP/1.0\n\n")
        assert "transfer-encoding" not in answer.headers
        assert answer.json() == {"bytes": 0, "fields": 0}


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with serving(Play()) as here:
        client = await here.connect()
        client.send("".join(f"GET /{n} HTTP/1.1\nHost: here\n\n" for n in range(50)))
        answers = [(await client.answer()).body for _ in range(50)]
        assert answers == [b"hello from /%d" % n for n in range(50)]


async def test_pipelined_requests_have_a_limit() -> None:
    """The answer under way is finished, then the connection ends."""
    play = Play()
    async with serving(play, Limits(pipelined=10)) as here:
        client = await here.connect()
        client.send("GET /a HTTP/1.1\nHost: here\n\n" * 12)
        assert (await client.answer()).status == 200
        assert await client.ended()
        assert play.requests == ["/a"]


async def test_continue_is_sent_when_the_body_is_wanted() -> None:
    async with serving(Play()) as here:
        client = await here.connect()
        client.send("POST /echo HTTP/1.1\nHost: here\nExpect: 100-continue\nContent-Length: 2\n\n")
        assert (await client.head()).status == 100
        client.send("ab")
        assert (await client.answer()).json()["bytes"] == 2


async def test_an_upgrade_is_not_taken() -> None:
    """The request is answered as HTTP/1.1, and so is the next one on the connection."""
    upgrade = "Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABk\n"
    async with serving(Play()) as here:
        client = await here.connect()
        client.send(f"GET /a HTTP/1.1\nHost: here\n{upgrade}\nGET /b HTTP/1.1\nHost: here\n\n")
        assert [(await client.answer()).body for _ in range(2)] == [b"hello from /a", b"hello from /b"]


async def test_the_body_of_an_upgrade_is_no_request() -> None:
    play = Play()
    async with serving(play) as here:
        inner = "GET /smuggled HTTP/1.1\n\n"
        client = await here.connect()
        client.send(
            "POST /a HTTP/1.1\nHost: here\nConnection: Upgrade\nUpgrade: h2c\nContent-Length: 26\n\n" + inner
        )
        assert (await client.answer()).status == 400
        assert await client.ended()
        assert play.requests == []


async def test_an_absolute_target_names_the_host() -> None:
    """The Host field beside it is ignored, so a check of the host sees what was asked for."""
    async with serving(Play()) as here:
        answer = await here.ask("GET http://other:1/scope HTTP/1.1\nHost: here\n\n")
        assert answer.json()["host"] == ["other:1"]


@pytest.mark.parametrize(
    "request_text",
    [
        "nonsense\n\n",
        "GET / HTTP/1.1\nbad field\n\n",
        "GET / HTTP/1.1\nContent-Length: 3\nTransfer-Encoding: chunked\n\n0\n\n",
        "GET / HTTP/1.1\nContent-Length: 3\nContent-Length: 4\n\nabcd",
        "GET / HTTP/1.1\nContent-Length: -1\n\n",
        "CONNECT here:443 HTTP/1.1\nHost: here\n\n",
        "GET /caf\u00e9 HTTP/1.1\nHost: here\n\n",
        "PRI * HTTP/2.0\n\nXX\n\n",
        "\x00\x01\x02\x03",
        "\x16\x03\x01\x02\x00\x01\x00",
    ],
)
async def test_what_is_not_http_gets_a_reason_and_the_end(request_text: str) -> None:
    async with serving(Play()) as here:
        client = await here.connect()
        client.send(request_text)
        answer = await client.answer()
        assert (answer.status, answer.json()) == (400, {"message": "invalid HTTP request"})
        assert await client.ended()


@pytest.mark.parametrize("version", [" HTTP/2.0", ""])
async def test_another_version_is_refused(version: str) -> None:
    async with serving(Play()) as here:
        assert (await here.ask(f"GET /{version}\n\n")).status == 505


async def test_a_bad_chunk_ends_the_request_that_waits_for_it() -> None:
    """The application learns that its client is gone; the client learns what was wrong."""
    play = Play()
    async with serving(play) as here:
        client = await here.connect()
        client.send("POST /echo HTTP/1.1\nHost: here\nTransfer-Encoding: chunked\n\n3\nabc\n")
        client.send("zz\n")
        assert (await client.answer()).status == 400
        await play.closed.wait()


async def test_garbage_behind_a_request_does_not_spoil_its_answer() -> None:
    play = Play()
    async with serving(play) as here:
        client = await here.connect()
        client.send("GET /events HTTP/1.1\nHost: here\n\n")
        await client.head()
        client.send("nonsense\n\n")
        await here.ask("GET / HTTP/1.1\nHost: here\n\n")
        play.release.set()
        assert await client.reader.read() == b"data: 1\n\ndata: 2\n\n"


async def test_a_crash_of_the_application_is_a_json_500(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Play()) as here:
        answer = await here.ask("GET /crash HTTP/1.1\nHost: here\n\n")
        assert (answer.status, answer.json()) == (500, {"message": "internal server error"})
        assert "planned" in caplog.text


@pytest.mark.parametrize(
    "request_text",
    [
        "GET / HTTP/1.1\nX: " + "a" * 33_000 + "\n\n",
        "GET / HTTP/1.1\n" + "X: y\n" * 7_000 + "\n",
        "GET /" + "a" * 33_000 + " HTTP/1.1\n\n",
        "GET / HTTP/1.1\nX: " + "a" * 2_000_000,
        "GET / HTTP/1.1\nHost: here\n\nGET / HTTP/1.1\nX: " + "a" * 2_000_000,
        "\n" * 40_000,
    ],
    ids=["field", "fields", "target", "endless field", "pipelined", "empty lines"],
)
async def test_a_header_that_is_too_large_is_refused(request_text: str) -> None:
    """The refusal can be read although the client was still sending."""
    async with serving(Play()) as here:
        client = await here.connect()
        client.send(request_text)
        answer = await client.answer()
        if answer.status == 200:
            answer = await client.answer()
        assert (answer.status, answer.json()) == (431, {"message": "the request header is too large"})


async def test_a_header_of_a_fair_size_is_served() -> None:
    async with serving(Play()) as here:
        assert (await here.ask("GET / HTTP/1.1\nX: " + "a" * 32_000 + "\n\n")).status == 200


async def test_trailers_are_counted_and_not_shown() -> None:
    async with serving(Play()) as here:
        chunked = "POST /echo HTTP/1.1\nHost: here\nTransfer-Encoding: chunked\n\n3\nabc\n0\n"
        answer = await here.ask(chunked + "Authorization: forged\n\n")
        assert answer.json() == {"bytes": 3, "fields": 2}
        assert (await here.ask(chunked + "X: " + "a" * 1_000_000)).status == 431


async def test_a_header_that_drips_in_is_late() -> None:
    async with serving(Play(), Limits(head_s=0.1)) as here:
        client = await here.connect()
        client.send("GET / HTTP/1.1\nHost: h")
        answer = await client.answer()
        assert (answer.status, answer.json()) == (
            408,
            {"message": "the request header did not arrive within 0.1 s"},
        )
        assert await client.ended()


async def test_a_hang_up_is_noticed_behind_pipelined_requests() -> None:
    """uvicorn tells only the request that it read last, and the stream before it would run for ever."""
    play = Play()
    async with serving(play) as here:
        client = await here.connect()
        client.send("GET /events HTTP/1.1\nHost: here\n\nGET /a HTTP/1.1\nHost: here\n\n")
        await client.head()
        client.writer.transport.abort()
        play.link["abort"]()
        await play.closed.wait()


async def test_a_writer_cannot_hold_the_loop_after_a_hang_up() -> None:
    """It awaits nothing but `send`, and still the next request is served."""
    play = Play()
    async with serving(play) as here:
        client = await here.connect()
        client.send("GET /flood HTTP/1.1\nHost: here\n\n")
        await client.head()
        client.writer.transport.abort()
        assert (await here.ask("GET / HTTP/1.1\nHost: here\n\n")).status == 200
        play.release.set()
        await play.closed.wait()


async def test_a_stalled_client_costs_little_and_is_cut() -> None:
    """The writer waits at the high-water mark, its unsent bytes can be seen, and then the peer is cut."""
    play = Play()
    async with serving(play, Limits(stall_s=0.2)) as here:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, str(here.path))
            await loop.sock_sendall(sock, b"GET /pour HTTP/1.1\r\nHost: here\r\n\r\n")
            await play.closed.wait()
        assert 64 * 1024 <= play.most_unsent <= 66 * 1024
        assert here.server.tally == {"stalled": 1}


async def test_the_link_ends_an_answer() -> None:
    play = Play()
    async with serving(play) as here:
        client = await here.connect()
        client.send("GET /events HTTP/1.1\nHost: here\n\n")
        await client.head()
        play.link["abort"]()
        await client.reader.read()
        await play.closed.wait()


async def test_many_connections_that_vanish_leave_nothing_behind() -> None:
    play = Play()
    async with serving(play) as here:
        for _ in range(200):
            client = await here.connect()
            client.send("GET /events HTTP/1.1\nHost: here\n\n")
            await client.head()
            client.writer.transport.abort()
        await here.idle()
