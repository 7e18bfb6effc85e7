"""A host on the loopback that speaks raw HTTP, so that it can also speak it badly."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bullpen.config.settings import ProviderSettings
from bullpen.errors import ProviderError
from bullpen.providers.base import ModelEvent, ModelRequest, Provider, TextDelta, ToolSpec, UserTurn
from bullpen.providers.http import ModelClient
from bullpen.providers.openai_compat import OpenAICompat
from bullpen.providers.streaming import Limits

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Both loops: the server uses uvloop, and shutting down a socket beneath a reader is the loop's affair."""
    return "asyncio", {"use_uvloop": request.param}


def line(value: Any) -> bytes:
    """One SSE event with a JSON value or with bytes as they are."""
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def delta(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return line({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def say(*words: str) -> bytes:
    return b"".join(delta({"content": word}) for word in words)


def call(index: int | None, arguments: str = "", *, call_id: str = "", name: str = "") -> bytes:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    part: dict[str, Any] = {"function": function}
    part |= {"index": index} if index is not None else {}
    part |= {"id": call_id, "type": "function"} if call_id else {}
    return delta({"tool_calls": [part]})


def done(reason: str = "stop", usage: dict[str, Any] | None = None) -> bytes:
    counts = usage or {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return delta({}, reason) + line({"id": "c", "choices": [], "usage": counts}) + line(b"[DONE]")


class Exchange:
    """One request as it came, and the way to answer it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes, body: bytes
    ) -> None:
        self.reader, self.writer = reader, writer
        lines = head.decode().split("\r\n")
        self.target = lines[0]
        self.headers = {k.lower(): v for k, _, v in (each.partition(": ") for each in lines[1:] if each)}
        self.raw = body
        self.gone = asyncio.Event()

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def stream(self, *pieces: bytes) -> None:
        """A whole streamed answer."""
        await self.send(HEAD)
        for piece in pieces:
            await self.chunk(piece)
        await self.send(END)

    async def plain(self, status: int, value: Any, **headers: str) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        names = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        lines = "".join(f"{k}: {v}\r\n" for k, v in names.items())
        await self.send(f"HTTP/1.1 {status} X\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    async def wait_gone(self) -> None:
        """Until the other side has hung up."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(4096):
                pass
        self.gone.set()

    def cut(self, *, reset: bool = False) -> None:
        if reset:
            self.writer.transport.abort()
        else:
            self.writer.close()


Answer = Callable[[Exchange], Awaitable[None]]


class FakeHost:
    """Answers every request by the next of its answers, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self.url = ""

    def will(self, *answers: Answer) -> None:
        self.answers = list(answers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(each.split(b":")[1])
                    for each in head.split(b"\r\n")
                    if each.lower().startswith(b"content-length")
                )
                exchange = Exchange(reader, writer, head, await reader.readexactly(length))
                self.exchanges.append(exchange)
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                await answer(exchange)
        except (asyncio.IncompleteReadError, ConnectionError, RuntimeError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def host(anyio_backend: Any) -> AsyncIterator[FakeHost]:
    fake = FakeHost()
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(asyncio.CancelledError):
            await fake.serve(reader, writer)
        tasks.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=1 << 24)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield fake
    server.close()
    for task in list(tasks):
        task.cancel()
    await asyncio.sleep(0)


@pytest.fixture
async def http(anyio_backend: Any) -> AsyncIterator[ModelClient]:
    async with ModelClient(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)) as client:
        yield client


Build = Callable[..., OpenAICompat]


@pytest.fixture
def provider(host: FakeHost, http: ModelClient) -> Build:
    """A provider for the fake host; keyword arguments are settings, `limits` apart."""

    def build(limits: Limits | None = None, **settings: Any) -> OpenAICompat:
        facts = {
            "id": "fake",
            "name": "Fake",
            "base_url": host.url + "/v1",
            "api_key": "sk-test-key",
            **settings,
        }
        return OpenAICompat(ProviderSettings(**facts), http, limits=limits)

    return build


TOOL = ToolSpec("ls", "List a directory.", {"type": "object", "properties": {}})


def ask(text: str = "hello", **facts: Any) -> ModelRequest:
    plain = {
        "purpose": "turn",
        "session_id": "s",
        "model": "m",
        "system": ("Be kind.",),
        "turns": (UserTurn(text),),
    }
    return ModelRequest(**(plain | facts))


async def fails(provider: Provider, seen: list[ModelEvent] | None = None) -> ProviderError:
    """The error with which a step ends; the events before it go to `seen`."""
    events = [] if seen is None else seen
    try:
        async for event in provider.stream(ask()):
            events.append(event)
    except ProviderError as error:
        return error
    raise AssertionError(f"the step did not fail: {events}")


async def collect(events: AsyncIterator[ModelEvent]) -> list[ModelEvent]:
    return [event async for event in events]


async def said(events: AsyncIterator[ModelEvent]) -> str:
    """The text of an answer."""
    return "".join([event.text async for event in events if isinstance(event, TextDelta)])
