"""A stand-in for the server: raw sockets, just enough of the wire to try a client against bad luck.

It keeps a numbered log per workspace, replays by `Last-Event-ID`, sends close-delimited streams, and on
command cuts them, forgets workspaces, loses its log, swallows answers, or is gone altogether.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import anyio

EMPTY = {
    "parent_session_id": "",
    "message_count": 0,
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "summary_message_id": "",
    "cost": 0.0,
    "created_at": 1,
    "updated_at": 1,
    "is_busy": False,
    "attached_clients": 0,
}


def session(session_id: str, title: str = "", **fields: Any) -> dict[str, Any]:
    return {**EMPTY, "id": session_id, "title": title, **fields}


def message(
    message_id: str, text: str = "", *, role: str = "assistant", finish: str = "", **fields: Any
) -> dict:
    parts: list[dict[str, Any]] = [{"type": "text", "data": {"text": text}}] if text else []
    if finish or role != "assistant":
        parts.append({"type": "finish", "data": {"reason": finish or "stop", "time": 0}})
    known = {"id": message_id, "role": role, "session_id": "s1", "model": "", "provider": ""}
    return {"parts": parts, **known, "created_at": 1, "updated_at": 1, **fields}


class Request:
    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        url = urlsplit(target)
        self.method = method
        self.path = unquote(url.path).removeprefix("/v1")
        self.query = {key: values[0] for key, values in parse_qs(url.query).items()}
        self.headers = headers
        self.json: Any = json.loads(body) if body else None

    def __repr__(self) -> str:
        return f"{self.method} {self.path}"


class StandIn:
    """The state that outlives a restart: the log, sessions, messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.host = f"unix://{path}"
        self.epoch = "e1"
        self.log: list[tuple[int, str]] = []
        self.seq = 0
        self.volatile = 0
        self.oldest = 0
        self.sessions: dict[str, dict[str, Any]] = {}
        self.tool_servers: dict[str, Any] = {}
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.asks: dict[str, list[dict[str, Any]]] = {"permissions": [], "questions": []}
        self.queue: list[dict[str, Any]] = []
        self.is_ready = True
        self.offers: list[dict[str, Any]] | None = None
        self.remembered: dict[str, Any] = {"recent": {}, "favorites": []}
        self.clients: list[dict[str, Any]] = []
        self.requests: list[Request] = []
        self.is_open = False
        self.answers: dict[str, list[tuple[int, Any]]] = {}
        """Answers to give instead, by "METHOD /path-ending", each once."""
        self.swallowed: set[str] = set()
        """Calls that are done but not answered, each once."""
        self.delays: dict[str, anyio.Event] = {}
        """Answers that are made, but sent only later."""
        self.keys: dict[str, str] = {}
        self.on_prompt: Callable[[dict[str, Any]], None] = lambda _body: None
        self.moved = asyncio.Condition()
        self._streams: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    # Life and bad luck

    async def start(self) -> None:
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, str(self.path))

    async def stop(self, *, leave_socket: bool = False) -> None:
        """Be gone; a crash leaves the socket behind."""
        if self._server:
            self._server.close()
            self._server = None
        for writer in [*self._connections]:
            writer.transport.abort()
        self._connections.clear()
        self._streams.clear()
        self.is_open = False
        self.path.unlink(missing_ok=True)
        if leave_socket:
            self.path.touch()

    def cut(self) -> None:
        """End every stream cleanly."""
        for writer in self._streams:
            writer.close()
        self._streams.clear()

    def forget(self) -> None:
        """Close the workspace, as a server does when nobody claims it."""
        self.is_open = False
        self.cut()

    def lose_log(self) -> None:
        self.oldest = self.seq + 1

    # What happens in the workspace

    def emit(
        self, kind: str, payload: dict[str, Any], action: str = "created", *, durable: bool = True
    ) -> str:
        if durable:
            self.seq += 1
            event_id = f"{self.epoch}-{self.seq}"
        else:
            self.volatile += 1
            event_id = f"{self.epoch}-{self.seq}.{self.volatile}"
        frame = _frame(event_id, kind, action, payload)
        if durable:
            self.log.append((self.seq, frame))
        for writer in self._streams:
            writer.write(frame.encode())
        return event_id

    def delta(
        self, message_id: str, offset: int, text: str, part: str = "text", session_id: str = "s1"
    ) -> None:
        named = {"session_id": session_id, "message_id": message_id, "part": part}
        self.emit("message_delta", {**named, "offset": offset, "text": text}, "updated", durable=False)

    def raw(self, data: bytes) -> None:
        for writer in self._streams:
            writer.write(data)

    def calls(self, text: str) -> list[Request]:
        return [request for request in self.requests if text in repr(request)]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for a request after which the condition holds."""
        async with self.moved:
            await asyncio.wait_for(self.moved.wait_for(condition), 10)

    @property
    def streams(self) -> int:
        return len(self._streams)

    # HTTP

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while request := await _read(reader):
                self.requests.append(request)
                streams = await self._answer(request, writer)
                async with self.moved:
                    self.moved.notify_all()
                if streams:
                    await reader.read()
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._connections.discard(writer)
            self._streams.discard(writer)
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        for name, waiting in self.answers.items():
            if (
                waiting
                and repr(request).startswith(name.split("…")[0])
                and repr(request).endswith(name.split("…")[-1])
            ):
                status, body = waiting.pop(0)
                _write(writer, status, body, "")
                return False
        if request.path.endswith("/events") and self.is_open:
            self._stream(request, writer)
            return True
        status, body = self._route(request)
        for name in [*self.swallowed]:
            if repr(request).endswith(name):
                self.swallowed.discard(name)
                raise ConnectionResetError
        cursor = f"{self.epoch}-{self.seq}"
        for name in [*self.delays]:
            if repr(request).endswith(name):
                body = json.loads(json.dumps(body))
                async with self.moved:
                    self.moved.notify_all()
                await self.delays.pop(name).wait()
        _write(writer, status, body, cursor)
        return False

    def _stream(self, request: Request, writer: asyncio.StreamWriter) -> None:
        cursor = f"{self.epoch}-{self.seq}"
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
        writer.write(f"{head}Bullpen-Cursor: {cursor}\r\n\r\n".encode())
        after = request.headers.get("last-event-id")
        if after:
            epoch, _, number = after.rpartition("-")
            if epoch != self.epoch or int(number) + 1 < self.oldest:
                payload = {"reason": "cursor too old", "cursor": cursor}
                self.volatile += 1
                event_id = f"{self.epoch}-{self.seq}.{self.volatile}"
                writer.write(_frame(event_id, "resync", "created", payload).encode())
            else:
                writer.write("".join(frame for seq, frame in self.log if seq > int(number)).encode())
        self._streams.add(writer)

    def _route(self, request: Request) -> tuple[int, Any]:
        match request.method, request.path.strip("/").split("/"):
            case "GET", ["health"]:
                return 200, None
            case "GET", ["version"]:
                version = {"version": "0.1.0", "commit": "", "build_id": "", "go_version": "", "platform": ""}
                return 200, version
            case "POST", ["workspaces"]:
                self.is_open = True
                return 200, {"id": "w1", "path": request.json["path"], "config": {}}
            case "DELETE", ["clients", _]:
                return 200, None
            case _, ["workspaces", "w1", *rest] if self.is_open:
                return self._in_workspace(request, rest)
            case _, ["workspaces", *_]:
                return 404, {"message": "workspace not found", "code": "workspace_not_found"}
            case _:
                return 404, None

    def _in_workspace(self, request: Request, rest: list[str]) -> tuple[int, Any]:
        match request.method, rest:
            case "GET", ["sessions"]:
                return 200, list(self.sessions.values())
            case "GET", ["mcp", "states"]:
                return 200, self.tool_servers
            case "GET", ["agent"]:
                model = {"provider": "p", "model": "m"} if self.is_ready else {"provider": "", "model": ""}
                busy = any(s["is_busy"] for s in self.sessions.values())
                return 200, {"is_busy": busy, "is_ready": self.is_ready, "model": {}, "model_cfg": model}
            case "POST", ["config", "model"]:
                self.is_ready = True
                return 200, None
            case "GET", ["commands" | "skills"]:
                return 200, []
            case "GET", ["providers"]:
                return 200, self.offers or []
            case "GET", ["models"]:
                return 200, self.remembered
            case "GET", ["config"]:
                return 200, {"providers": {}}
            case "GET", ["clients"]:
                return 200, self.clients
            case "GET", ["asks"]:
                return 200, self.asks
            case "GET", ["sessions", session_id, "messages"]:
                return 200, self.messages.get(session_id, [])
            case "POST", ["sessions"]:
                new = session(f"s{len(self.sessions) + 1}", request.json.get("title", ""))
                self.sessions[new["id"]] = new
                self.emit("session", new)
                return 200, new
            case "GET" | "PUT", ["sessions", session_id, "choices"]:
                return 200, {"session_id": session_id}
            case "GET", ["agent", "sessions", _, "prompts"]:
                return 200, self.queue
            case "POST", ["agent"]:
                return self._prompt(request)
            case "POST", ["agent", "sessions", _, "cancel"]:
                return 200, {"dropped": [p["text"] for p in self.queue]}
            case "POST", ["permissions", "grant"] | ["questions", "answer"]:
                return 200, {"resolved": True}
            case _:
                return 200, None

    def _prompt(self, request: Request) -> tuple[int, Any]:
        key = request.headers.get("idempotency-key", "")
        if key not in self.keys:
            self.keys[key] = request.json.get("run_id") or str(uuid.uuid4())
            self.on_prompt({**request.json, "run_id": self.keys[key]})
        return 202, {"run_id": self.keys[key]}


def _frame(event_id: str, kind: str, action: str, payload: dict[str, Any]) -> str:
    envelope = {"type": kind, "payload": {"type": action, "payload": payload}}
    return f"id: {event_id}\ndata: {json.dumps(envelope)}\n\n"


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, target, headers, body)


def _write(writer: asyncio.StreamWriter, status: int, body: Any, cursor: str) -> None:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    if cursor:
        head += f"Bullpen-Cursor: {cursor}\r\n"
    writer.write(head.encode() + b"\r\n" + content)
