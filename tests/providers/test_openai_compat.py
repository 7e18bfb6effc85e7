from __future__ import annotations

import asyncio
import gzip
import ssl
import time
from contextlib import aclosing
from typing import Any

import anyio
import pytest
import trustme
from tests.providers.conftest import (
    END,
    HEAD,
    TOOL,
    Build,
    Exchange,
    FakeHost,
    ask,
    call,
    collect,
    delta,
    done,
    fails,
    line,
    say,
)

from bullpen import __version__
from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers.base import ModelEvent, StepDone, TextDelta, ToolCallDone, Usage
from bullpen.providers.http import ModelClient
from bullpen.providers.openai_compat import OpenAICompat
from bullpen.providers.registry import BUILT_IN, build
from bullpen.providers.streaming import Limits

DONE = StepDone("end_turn", Usage(input=100, output=10))


async def hello(exchange: Exchange) -> None:
    await exchange.stream(say("hello ", "there"), done())


async def test_words_become_events_as_they_come(host: FakeHost, provider: Build) -> None:
    """Text, then one end with the counts."""
    host.will(hello)
    assert await collect(provider().stream(ask())) == [TextDelta("hello "), TextDelta("there"), DONE]


async def test_what_the_host_is_sent(host: FakeHost, provider: Build) -> None:
    """Address, headers and body of a request."""
    host.will(hello)
    settings = {"extra_headers": {"X-Team": "blue"}, "extra_body": {"seed": 7}}
    await collect(provider(**settings).stream(ask(tools=(TOOL,), max_tokens=50)))
    seen = host.exchanges[0]
    assert seen.target == "POST /v1/chat/completions HTTP/1.1"
    assert seen.headers["authorization"] == "Bearer sk-test-key"
    assert seen.headers["user-agent"] == f"bullpen/{__version__}"
    assert seen.headers["x-team"] == "blue"
    assert seen.headers["x-session-id"] == seen.headers["x-session-affinity"] != "s"
    assert seen.json == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "ls",
                    "description": "List a directory.",
                    "parameters": {"type": "object", "properties": {}},
                    "strict": False,
                },
            }
        ],
        "tool_choice": "auto",
        "max_tokens": 50,
        "seed": 7,
    }


@pytest.mark.parametrize(
    "kind", sorted(kind for kind, where in BUILT_IN.items() if where == BUILT_IN["openai-compat"])
)
async def test_every_type_of_chat_host(host: FakeHost, http: ModelClient, kind: str) -> None:
    """Whatever a host is called in the config: words, a call and the counts arrive, and the key goes there."""
    host.will(
        lambda exchange: exchange.stream(
            say("Let me "),
            call(0, '{"path": "."}', call_id="c1", name="ls"),
            done("tool_calls", {"prompt_tokens": 9, "completion_tokens": 3}),
        )
    )
    settings = ProviderSettings(id=f"my-{kind}", type=kind, base_url=host.url, api_key="k" * 20)
    events = await collect(build(settings, http).stream(ask()))
    assert TextDelta("Let me ") in events
    assert ToolCallDone("c1", "ls", '{"path": "."}') in events
    assert events[-1] == StepDone("tool_use", Usage(input=9, output=3))
    assert host.exchanges[0].headers["authorization"] == "Bearer " + "k" * 20


async def test_no_key_means_no_authorization(host: FakeHost, provider: Build) -> None:
    host.will(hello)
    await collect(provider(api_key="").stream(ask()))
    assert "authorization" not in host.exchanges[0].headers


async def test_a_finished_connection_is_used_again(host: FakeHost, provider: Build) -> None:
    host.will(hello)
    model = provider()
    for _ in range(3):
        await collect(model.stream(ask()))
    assert host.connections == 1


async def test_leaving_early_hangs_up(host: FakeHost, provider: Build) -> None:
    """The host sees it while the generator is being closed, not some time later."""

    async def endless(exchange: Exchange) -> None:
        await exchange.send(HEAD)
        await exchange.chunk(say("one ", "two "))
        await exchange.wait_gone()

    host.will(endless)
    async with aclosing(provider().stream(ask())) as events:
        assert await anext(events) == TextDelta("one ")
    with anyio.fail_after(2):
        await host.exchanges[0].gone.wait()


@pytest.mark.parametrize("said", [b"", HEAD, HEAD + b"5\r\n: hi\n\r\n"], ids=["silent", "head", "comment"])
async def test_a_cancelled_scope_hangs_up(host: FakeHost, provider: Build, said: bytes) -> None:
    """At every moment of an answer: before its head, before its first event, and after a ping."""

    async def hang(exchange: Exchange) -> None:
        await exchange.send(said)
        await exchange.wait_gone()

    host.will(hang)
    with anyio.move_on_after(0.1):
        await collect(provider().stream(ask()))
    with anyio.fail_after(2):
        await host.exchanges[0].gone.wait()


async def test_a_slow_reader_is_not_taken_for_a_silent_host(host: FakeHost, provider: Build) -> None:
    host.will(hello)
    seen = []
    async for event in provider(Limits(0.2, 0.2)).stream(ask()):
        await anyio.sleep(0.5)
        seen.append(event)
    assert seen[-1] == DONE


@pytest.mark.parametrize("pieces", [[], [HEAD], [HEAD, delta({"role": "assistant", "content": ""})]])
async def test_a_host_that_never_begins_is_given_up(
    host: FakeHost, provider: Build, pieces: list[bytes]
) -> None:
    """R-20: no head, no byte after it, or no event that means anything."""

    async def silent(exchange: Exchange) -> None:
        for piece in pieces:
            await (exchange.send(piece) if piece is HEAD else exchange.chunk(piece))
        await exchange.wait_gone()

    host.will(silent)
    began = time.monotonic()
    error = await fails(provider(Limits(0.3, 5)))
    assert 0.25 < time.monotonic() - began < 1.3
    assert (error.title, error.retryable) == ("Stream Transport Error", True)
    assert "silent for 0.3 s" in error.details
    with anyio.fail_after(2):
        await host.exchanges[0].gone.wait()


@pytest.mark.parametrize(
    "drip", [b": ping\n\n", b"\n", line({"choices": []})], ids=["comment", "blank", "empty"]
)
async def test_pings_do_not_count(host: FakeHost, provider: Build, drip: bytes) -> None:
    """R-20: a host that only keeps the line open is silent."""

    async def dripping(exchange: Exchange) -> None:
        await exchange.send(HEAD)
        await exchange.chunk(say("one "))
        while True:
            await anyio.sleep(0.05)
            await exchange.chunk(drip)

    host.will(dripping)
    began = time.monotonic()
    error = await fails(provider(Limits(5, 0.3)))
    assert 0.25 < time.monotonic() - began < 1.3
    assert "silent" in error.details


async def test_progress_keeps_a_long_answer_alive(host: FakeHost, provider: Build) -> None:
    async def slow(exchange: Exchange) -> None:
        await exchange.send(HEAD)
        for _ in range(8):
            await anyio.sleep(0.1)
            await exchange.chunk(say("w "))
        await exchange.chunk(done())
        await exchange.send(END)

    host.will(slow)
    events = await collect(provider(Limits(0.4, 0.4)).stream(ask()))
    assert len(events) == 9


async def test_arguments_that_grow_keep_a_long_answer_alive(host: FakeHost, provider: Build) -> None:
    """A large file is written in one call, and its arguments are no event before they are complete."""

    async def slow(exchange: Exchange) -> None:
        await exchange.send(HEAD)
        await exchange.chunk(call(0, '{"text": "', call_id="a", name="write"))
        for _ in range(8):
            await anyio.sleep(0.1)
            await exchange.chunk(call(0, "w "))
        await exchange.chunk(call(0, '"}') + done("tool_calls"))
        await exchange.send(END)

    host.will(slow)
    events = await collect(provider(Limits(0.4, 0.4)).stream(ask()))
    assert events[1] == ToolCallDone("a", "write", '{"text": "' + 8 * "w " + '"}')


async def test_a_complete_answer_need_not_wait_for_the_end(
    host: FakeHost, provider: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that neither counts nor closes has still answered."""
    monkeypatch.setattr("bullpen.providers.streaming.AFTER_FINISH_S", 0.2)

    async def open_end(exchange: Exchange) -> None:
        await exchange.send(HEAD)
        await exchange.chunk(say("all") + delta({}, "stop"))
        await exchange.wait_gone()

    host.will(open_end)
    assert await collect(provider().stream(ask())) == [TextDelta("all"), StepDone("end_turn", Usage())]


@pytest.mark.parametrize("reset", [False, True])
async def test_a_cut_answer_fails_at_every_byte(host: FakeHost, provider: Build, reset: bool) -> None:
    """R-22: whatever arrived, the step fails in a way that may be tried again, and no call is complete."""
    body = say("hi ") + call(0, call_id="a", name="ls") + call(0, '{"path": "x"}')
    whole = HEAD + b"%x\r\n%s\r\n" % (len(body), body)

    def cut_at(at: int) -> Any:
        async def answer(exchange: Exchange) -> None:
            if at:
                await exchange.send(whole[:at])
                await anyio.sleep(0.002)
            exchange.cut(reset=reset)

        return answer

    for at in range(0, len(whole), 13):
        host.will(cut_at(at))
        events: list[ModelEvent] = []
        error = await fails(provider(), seen=events)
        assert error.retryable, error
        assert not any(isinstance(e, (ToolCallDone, StepDone)) for e in events)


async def test_an_end_without_a_finish_reason_is_a_failure(host: FakeHost, provider: Build) -> None:
    """A compatible host that just stops has not finished."""

    async def early(exchange: Exchange) -> None:
        await exchange.stream(say("half "), line(b"[DONE]"))

    host.will(early)
    error = await fails(provider())
    assert (error.title, error.retryable) == ("Stream Transport Error", True)
    assert "ended early" in error.details


@pytest.mark.parametrize(
    ("status", "title", "retryable"),
    [
        (400, "Bad Request", False),
        (401, "Unauthorized", False),
        (403, "Forbidden", False),
        (404, "Not Found", False),
        (408, "Request Timeout", True),
        (409, "Conflict", True),
        (429, "Too Many Requests", True),
        (500, "Internal Server Error", True),
        (503, "Service Unavailable", True),
        (529, "Provider Error", True),
        (307, "Temporary Redirect", False),
    ],
)
async def test_statuses(host: FakeHost, provider: Build, status: int, title: str, retryable: bool) -> None:
    """Title, provider's words and whether another try makes sense."""

    async def refuse(exchange: Exchange) -> None:
        await exchange.plain(status, {"error": {"message": f"fake failure {status}"}})

    host.will(refuse)
    error = await fails(provider())
    assert (error.title, error.status, error.retryable) == (title, status, retryable)
    assert f"fake failure {status}" in error.details


@pytest.mark.parametrize(
    ("status", "facts", "kind", "step"),
    [
        (401, {}, "auth", "set providers.fake.api_key to one that is valid"),
        (401, {"api_key": ""}, "auth", "wants a key and has none: no; set providers.fake.api_key"),
        (401, {"id": "openai"}, "auth", "set OPENAI_API_KEY or providers.openai.api_key"),
        (403, {}, "auth", "does not let this key use m: no; check the account"),
        (404, {}, "missing", "choose another model or correct providers.fake.base_url"),
        (413, {}, "overflow", "no"),
        (429, {}, "limit", "no"),
        (529, {}, "overloaded", "no"),
    ],
)
async def test_a_refusal_names_the_next_step(
    host: FakeHost, provider: Build, status: int, facts: dict[str, str], kind: str, step: str
) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.plain(status, {"error": {"message": "no"}})

    host.will(refuse)
    error = await fails(provider(**facts))
    assert error.kind == kind
    assert step in error.details


async def test_a_web_page_is_no_model(host: FakeHost, provider: Build) -> None:
    """A base URL that leads to somebody's home page: not tried again, and said so."""

    async def page(exchange: Exchange) -> None:
        await exchange.plain(200, b"<html>Welcome</html>", Content_Type="text/html; charset=utf-8")

    host.will(page)
    error = await fails(provider())
    assert (error.kind, error.retryable) == ("missing", False)
    assert error.details == (
        f"{host.url}/v1/chat/completions is a web page and no model; correct providers.fake.base_url"
    )


async def test_a_used_up_limit_says_when_it_begins_anew(host: FakeHost, provider: Build) -> None:
    async def busy(exchange: Exchange) -> None:
        reset = {"X_RateLimit_Reset_Requests": "1m30s", "X_RateLimit_Remaining_Requests": "0"}
        await exchange.plain(429, {"error": {"message": "slow down"}}, **reset)

    host.will(busy)
    now = time.time()
    error = await fails(provider())
    assert error.resets_at is not None
    assert now + 90 <= error.resets_at <= time.time() + 90
    assert error.retry_after_s == pytest.approx(90)


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"Retry_After": "7"}, 7.0),
        ({"rETRY_aFTER": "7"}, 7.0),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "inf"}, None),
        ({}, None),
    ],
)
async def test_the_host_says_when_to_come_back(
    host: FakeHost, provider: Build, headers: dict[str, str], wait_s: float | None
) -> None:
    """Retry-After counts whatever the case of its name."""

    async def busy(exchange: Exchange) -> None:
        await exchange.plain(429, {"error": {"message": "slow down"}}, **headers)

    host.will(busy)
    assert (await fails(provider())).retry_after_s == wait_s


@pytest.mark.parametrize(
    ("body", "details"),
    [
        (b"", "the model's host answered 400 Bad Request"),
        (b"<html>no</html>", "<html>no</html>"),
        (b'{"error": "plain"}', "plain"),
        (b'{"message": "flat"}', "flat"),
        (b'[{"error": {"message": "listed"}}]', "listed"),
        (b'{"detail": [{"message": "deep"}]}', "deep"),
        (b'{"error": {"message": "Not for sk-test-key"}}', "Not for …"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
async def test_what_is_shown_of_a_refusal(host: FakeHost, provider: Build, body: bytes, details: str) -> None:
    """Whatever form the words have; never the key."""

    async def refuse(exchange: Exchange) -> None:
        await exchange.plain(400, body)

    host.will(refuse)
    assert (await fails(provider())).details == details


async def test_a_refusal_that_never_ends_is_cut(host: FakeHost, provider: Build) -> None:
    async def flood(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await exchange.chunk(b"x" * 65536)

    host.will(flood)
    assert len((await fails(provider())).details) <= 500


async def test_an_unreachable_host(provider: Build) -> None:
    error = await fails(provider(base_url="http://127.0.0.1:9/v1"))
    assert (error.title, error.retryable) == ("Connection Error", True)
    assert error.details.startswith("Fake cannot be reached")


async def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        monkeypatch.setenv("HTTPS_PROXY", url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        async with ModelClient(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)) as http:
            settings = ProviderSettings(id="far", name="Far", base_url="https://model.invalid/v1")
            error = await fails(OpenAICompat(settings, http))
    assert error.title == "Connection Error"
    assert error.details.startswith(
        "Far cannot be reached: 407 Proxy Authentication Required; check the proxy, "
    )


async def test_a_certificate_that_nobody_vouches_for(host: FakeHost, provider: Build) -> None:
    """Not tried again: it will not be trusted a second later."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.start_server(host.serve, "127.0.0.1", 0, ssl=context)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        error = await fails(provider(base_url=url))
    assert (error.title, error.retryable) == ("Connection Error", False)
    assert error.details.startswith(f"the certificate of {url}/chat/completions is not trusted: ")
    assert error.details.endswith("or name a file with it in SSL_CERT_FILE")


async def test_a_host_without_tls(provider: Build) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        error = await fails(provider(base_url=url))
    assert (error.title, error.retryable) == ("Connection Error", False)
    assert error.details.endswith("; try http:// in providers.fake.base_url")


@pytest.mark.parametrize(
    "settings",
    [{"base_url": "nonsense"}, {"base_url": "ftp://x"}, {"api_key": "sk-\u2026"}, {"api_key": "sk-a\nb"}],
)
async def test_settings_that_make_no_request(provider: Build, settings: dict[str, str]) -> None:
    """An error for the person, not a crash, and without the key."""
    error = await fails(provider(**settings))
    assert not error.retryable
    assert "sk-" not in error.details


async def test_a_line_that_never_ends(host: FakeHost, provider: Build) -> None:
    """R-21: bounded, then an error."""

    async def flood(exchange: Exchange) -> None:
        await exchange.send(HEAD)
        await exchange.chunk(b"data: ")
        while True:
            await exchange.chunk(b"x" * (1 << 18))

    host.will(flood)
    error = await fails(provider())
    assert "a line does not end" in error.details


async def test_a_host_that_does_not_stream(host: FakeHost, provider: Build) -> None:
    """One JSON answer gives the same events."""

    async def whole(exchange: Exchange) -> None:
        message = {"role": "assistant", "content": "all at once"}
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        await exchange.plain(
            200, {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
        )

    host.will(whole)
    assert await collect(provider().stream(ask())) == [TextDelta("all at once"), DONE]


async def test_an_error_with_status_200(host: FakeHost, provider: Build) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.plain(200, {"error": {"message": "no credit", "type": "billing"}})

    host.will(refuse)
    error = await fails(provider())
    assert (error.details, error.retryable) == ("no credit", False)


async def test_a_host_that_compresses_unasked(host: FakeHost, provider: Build) -> None:
    async def squeezed(exchange: Exchange) -> None:
        await exchange.send(HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n")
        await exchange.chunk(gzip.compress(say("small") + done()))
        await exchange.send(END)

    host.will(squeezed)
    assert await collect(provider().stream(ask())) == [TextDelta("small"), DONE]


async def test_many_streams_at_once(host: FakeHost, provider: Build) -> None:
    """One client serves them all; none waits for another."""
    begun = 0
    all_here = anyio.Event()

    async def together(exchange: Exchange) -> None:
        nonlocal begun
        begun += 1
        if begun == 120:
            all_here.set()
        await all_here.wait()
        await hello(exchange)

    host.will(together)
    model, ends = provider(), []

    async def one() -> None:
        ends.append((await collect(model.stream(ask())))[-1])

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(120):
                tasks.start_soon(one)
    assert ends == [DONE] * 120


async def test_no_secret_of_the_request_is_repeated(host: FakeHost, provider: Build) -> None:
    """A host that quotes all headers back, refusing at once or in the middle of its answer."""
    quoted = "no: Bearer sk-test-key, X-Secret: header-secret"
    for answer in (
        lambda exchange: exchange.plain(401, {"error": {"message": quoted}}),
        lambda exchange: exchange.stream(say("a"), line({"error": {"message": quoted}})),
    ):
        host.will(answer)
        with pytest.raises(ProviderError) as caught:
            await collect(provider(extra_headers={"X-Secret": "header-secret"}).stream(ask()))
        assert "no: Bearer …, X-Secret: …" in str(caught.value)
        assert "secret" not in str(caught.value)
