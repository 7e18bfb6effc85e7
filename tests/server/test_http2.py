"""HTTP/2: streams side by side, windows that stay shut, and limits of what a peer may send."""

from __future__ import annotations

import os
import random

import h2.events
import h2.settings
import pytest
from h2.errors import ErrorCodes
from tests.server.raw import Client2, Play, serving

from bullpen.server.link import Limits
from bullpen.server.protocol import PREFACE


@pytest.fixture(params=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


async def test_streams_share_a_connection() -> None:
    """An open event stream holds nobody up, and its events arrive as they are sent."""
    play = Play()
    async with serving(play) as here:
        client = Client2(await here.connect())
        events = client.request("/events")
        assert (await client.next(h2.events.DataReceived, events)).data == b"data: 1\n\n"
        others = [client.request(f"/{n}") for n in range(20)]
        bodies = [(await client.answer(stream)).body for stream in others]
        assert bodies == [b"hello from /%d" % n for n in range(20)]
        play.release.set()
        assert (await client.next(h2.events.DataReceived, events)).data == b"data: 2\n\n"
        assert await client.next(h2.events.StreamEnded, events)


async def test_the_scope_is_that_of_http1() -> None:
    async with serving(Play()) as here:
        client = Client2(await here.connect())
        stream = client.request("/scope?a=1", extra=[("cookie", "a=1"), ("cookie", "b=2")])
        assert (await client.answer(stream)).json() == {
            "version": "2",
            "host": ["here"],
            "cookie": ["a=1; b=2"],
            "query": "a=1",
            "uid": os.geteuid(),
            "unix": True,
            "unsent": 0,
        }


async def test_a_request_without_a_body_is_complete() -> None:
    """uvicorn forgets to say so, and an application that reads the body waits for ever."""
    async with serving(Play()) as here:
        client = Client2(await here.connect())
        assert (await client.answer(client.request("/echo"))).json()["bytes"] == 0


async def test_a_large_body_goes_both_ways() -> None:
    """More than the windows hold at once, up and down."""
    async with serving(Play()) as here:
        client = Client2(await here.connect())
        up = client.request("/echo", method="POST", body=b"u" * 16_000)
        assert (await client.answer(up)).json()["bytes"] == 16_000
        assert len((await client.answer(client.request("/big"))).body) == 300_000


async def test_a_reset_reaches_the_application() -> None:
    play = Play()
    async with serving(play) as here:
        client = Client2(await here.connect())
        stream = client.request("/events")
        await client.next(h2.events.DataReceived, stream)
        client.conn.reset_stream(stream)
        client.flush()
        await play.closed.wait()
        assert (await client.answer(client.request("/a"))).body == b"hello from /a"


async def test_a_writer_waits_for_the_window_and_is_reset_if_it_stays_shut() -> None:
    """zttp would keep all that is written; other streams of the connection go on."""
    play = Play()
    async with serving(play, Limits(stall_s=0.3)) as here:
        client = Client2(await here.connect())
        stream = client.request("/pour")
        assert await client.next(h2.events.StreamReset, stream)
        await play.closed.wait()
        assert play.most_unsent <= 66 * 1024
        client.conn.increment_flow_control_window(100_000)
        assert (await client.answer(client.request("/a"))).body == b"hello from /a"
        assert here.server.tally == {"stalled": 1}


async def test_unsent_bytes_are_those_behind_the_window() -> None:
    play = Play()
    async with serving(play) as here:
        client = Client2(await here.connect())
        client.conn.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 4})
        stream = client.request("/events")
        assert (await client.next(h2.events.DataReceived, stream)).data == b"data"
        assert play.link["unsent"]() == len(b": 1\n\n")
        client.conn.increment_flow_control_window(100, stream)
        client.flush()
        assert (await client.next(h2.events.DataReceived, stream)).data == b": 1\n\n"


async def test_the_link_ends_one_answer() -> None:
    play = Play()
    async with serving(play) as here:
        client = Client2(await here.connect())
        stream = client.request("/events")
        await client.next(h2.events.DataReceived, stream)
        play.link["abort"]()
        assert await client.next(h2.events.StreamReset, stream)
        await play.closed.wait()
        assert (await client.answer(client.request("/a"))).body == b"hello from /a"


async def test_a_header_that_is_too_large_is_refused() -> None:
    """The stream is answered, the connection goes on."""
    async with serving(Play()) as here:
        client = Client2(await here.connect())
        answer = await client.answer(client.request("/a", extra=[("x", "y" * 40_000)]))
        assert (answer.status, answer.json()) == (431, {"message": "the request header is too large"})
        assert (await client.answer(client.request("/b"))).body == b"hello from /b"


@pytest.mark.parametrize("path", ["/caf\u00e9", "nowhere", "http://here/"])
async def test_a_bad_path_is_refused(path: str) -> None:
    async with serving(Play()) as here:
        client = Client2(await here.connect())
        answer = await client.answer(client.request(path))
        assert (answer.status, answer.json()) == (400, {"message": "invalid HTTP request"})


async def test_a_crash_of_the_application_is_a_json_500(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Play()) as here:
        client = Client2(await here.connect())
        answer = await client.answer(client.request("/crash"))
        assert (answer.status, answer.json()) == (500, {"message": "internal server error"})
        assert "planned" in caplog.text


async def test_a_frame_that_drips_in_is_late() -> None:
    async with serving(Play(), Limits(head_s=0.1)) as here:
        raw = await here.connect()
        client = Client2(raw)
        client.flush()
        await client.next(h2.events.SettingsAcknowledged)
        raw.send(b"\x00\x10\x00\x01")
        assert await client.next(h2.events.ConnectionTerminated)
        assert here.server.tally == {"refused_408": 1}


async def test_a_connection_without_requests_is_closed() -> None:
    async with serving(Play(), Limits(idle_s=1)) as here:
        client = Client2(await here.connect())
        await client.answer(client.request("/a"))
        assert await client.next(h2.events.ConnectionTerminated)


async def test_requests_that_are_reset_at_once_leave_nothing_behind() -> None:
    """The peer is told to calm down, and no task is left over."""
    async with serving(Play()) as here:
        client = Client2(await here.connect())
        for _ in range(2_000):
            stream = client.request("/events")
            client.conn.reset_stream(stream)
        client.flush()
        assert (await client.next(h2.events.ConnectionTerminated)).error_code == ErrorCodes.ENHANCE_YOUR_CALM
        await here.idle()


async def test_random_frames_never_reach_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """No bytes make the protocol itself fail."""
    dice = random.Random(7)
    async with serving(Play()) as here:
        for _ in range(200):
            raw = await here.connect()
            kind, size = dice.randrange(11), dice.randrange(40)
            head = (
                size.to_bytes(3, "big")
                + bytes([kind, dice.randrange(256)])
                + dice.randrange(4).to_bytes(4, "big")
            )
            raw.send(PREFACE + b"\0\0\0\4\0\0\0\0\0" + head + dice.randbytes(size))
            raw.writer.write_eof()
            await raw.ended()
        assert (await here.ask("GET / HTTP/1.1\nHost: here\n\n")).status == 200
    assert [record.message for record in caplog.records if record.levelname in {"ERROR", "CRITICAL"}] == []
