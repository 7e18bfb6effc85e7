"""A model server that speaks chat completions over HTTP, and does what the last prompt says: also the bad things.

It runs on a loop of its own in a thread, so that whoever drives the server may block. The prompts it knows:

    say N            N words
    drip N           N words, one at a time, a little apart
    run COMMAND      one call of bash, and then "done"
    use TOOL         one call of a tool that needs no arguments
    reset            the connection is cut in the middle of the answer, the first time; then "back"
    busy             503 with Retry-After, the first time; then "back"
    wrong            garbage instead of an event, then the end
    hang             nothing more after the first word
    echo             401, with the request's own headers in the message
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PACE_S = 0.005


class Model:
    """Counts what it was asked; `url` is for a provider's `base_url`."""

    def __init__(self) -> None:
        self.url = ""
        self.requests = 0
        self.faults = 0
        self.heads: list[str] = []
        """The request lines and headers as they came."""
        self._tried: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                    fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:-2])
                    body = json.loads(await reader.readexactly(int(fields["content-length"])))
                    self.requests += 1
                    self.heads = [*self.heads[-99:], head]
                    if not await self._answer(body, head, reader, writer):
                        break
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(
        self, body: Any, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Whether the connection goes on."""
        key, verb, rest = _wish(body)
        match verb:
            case "reset" | "busy" if key not in self._tried:
                self._tried.add(key)
                self.faults += 1
                if verb == "busy":
                    await _plain(writer, 503, {"error": {"message": "busy"}}, "Retry-After: 0\r\n")
                    return True
                writer.write(HEAD + _chunk(_event({"content": "half"})))
                await writer.drain()
                writer.transport.abort()
                return False
            case "wrong":
                self.faults += 1
                writer.write(HEAD + _chunk(b"data: {nonsense\n\n") + b"0\r\n\r\n")
            case "echo":
                self.faults += 1
                await _plain(writer, 401, {"error": {"message": f"bad credentials: {head}"}})
            case "hang":
                self.faults += 1
                writer.write(HEAD + _chunk(_event({"content": "first"})))
                await reader.read()  # Until the other side has had enough.
                return False
            case "run" | "use" if body["messages"][-1]["role"] != "tool":
                name, given = (
                    ("bash", {"description": "soak", "command": rest}) if verb == "run" else (rest, {})
                )
                arguments = json.dumps(given)
                call = {"index": 0, "id": f"c{self.requests}", "type": "function"}
                writer.write(HEAD)
                await _say(
                    writer, [{"tool_calls": [{**call, "function": {"name": name, "arguments": arguments}}]}]
                )
                await _end(writer, "tool_calls")
            case _:
                words = int(rest) if rest.isdecimal() and verb in {"say", "drip"} else 1
                writer.write(HEAD)
                pace_s = PACE_S if verb == "drip" else 0
                await _say(writer, [{"content": f"word{n} "} for n in range(words)], pace_s)
                await _end(writer, "stop")
        await writer.drain()
        return True


def _wish(body: Any) -> tuple[str, str, str]:
    """What the last thing a person said asks for."""
    texts = [m["content"] for m in body["messages"] if m["role"] == "user"]
    text = texts[-1] if isinstance(texts[-1], str) else " ".join(p.get("text", "") for p in texts[-1])
    wish, _, key = text.partition(" #")
    verb, _, rest = wish.strip().partition(" ")
    return f"{verb} {key}", verb, rest


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    value = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def _say(writer: asyncio.StreamWriter, deltas: list[dict[str, Any]], pace_s: float = 0) -> None:
    for delta in deltas:
        writer.write(_chunk(_event(delta)))
        await writer.drain()
        if pace_s:
            await asyncio.sleep(pace_s)


async def _end(writer: asyncio.StreamWriter, reason: str) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    last = b"data: " + json.dumps({"id": "c", "choices": [], "usage": usage}).encode() + b"\n\n"
    writer.write(_chunk(_event({}, reason)) + _chunk(last) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")


async def _plain(writer: asyncio.StreamWriter, status: int, value: Any, fields: str = "") -> None:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{fields}Content-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


@contextlib.contextmanager
def running_model() -> Iterator[Model]:
    model = Model()
    started, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def main() -> None:
        server = await asyncio.start_server(model.accept, "127.0.0.1", 0, limit=1 << 24)
        model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        started.set()
        await stop.wait()
        server.close()
        for task in list(model._tasks):
            task.cancel()
        await asyncio.gather(*model._tasks, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),), daemon=True)
    thread.start()
    started.wait()
    try:
        yield model
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


def config(model: Model, **provider: Any) -> dict[str, Any]:
    """A config file whose only provider is the model."""
    models = [{"id": "m", "name": "M", "context_window": 1_000_000, "default_max_tokens": 4_000}]
    chosen = {"provider": "soak", "model": "m"}
    entry = {"type": "openai-compat", "base_url": model.url, "api_key": "k", "models": models, **provider}
    return {
        "options": {"disable_default_providers": True},
        "providers": {"soak": entry},
        "models": {"large": chosen, "small": chosen},
    }
