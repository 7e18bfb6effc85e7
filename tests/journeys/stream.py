"""Event streams as bytes on a bare socket: what came, with which ids, and how it ended."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LIMIT_S = 20.0
"""Longest wait for something that must happen; generous, because the machine may have other work."""


@dataclass(frozen=True)
class Seen:
    """One event of a stream."""

    id: str
    kind: str
    action: str
    data: dict[str, Any]

    @property
    def is_durable(self) -> bool:
        """Whether the id is one of the log's own: `<epoch>-<seq>`."""
        return "." not in self.id

    @property
    def seq(self) -> int:
        """The event's number in the log."""
        return int(self.id.rpartition("-")[2])

    def has(self, **fields: Any) -> bool:
        return all(self.data.get(key) == value for key, value in fields.items())

    def __str__(self) -> str:
        if self.kind == "message":
            kinds = ",".join(part["type"] for part in self.data["parts"])
            return (
                f"{self.id} message/{self.action} {self.data['role']} [{kinds}] {text_of(self.data)[:40]!r}"
            )
        return f"{self.id} {self.kind}/{self.action} {json.dumps(self.data)[:120]}"


def parts_of(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part["data"] for part in message["parts"] if part["type"] == kind]


def text_of(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in parts_of(message, "text"))


def reason_of(message: dict[str, Any]) -> str:
    """The finish reason; "" while the message is unfinished."""
    return next((part["reason"] for part in parts_of(message, "finish")), "")


def shape_of(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Who spoke, and how it ended."""
    return [(message["role"], reason_of(message)) for message in messages]


def connect(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(LIMIT_S)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock


class Stream:
    """One `GET W/events`, read by a thread of its own unless `read` says otherwise."""

    def __init__(
        self, path: str, target: str, headers: dict[str, str] | None = None, *, read: bool = True
    ) -> None:
        self.events: list[Seen] = []
        self.lines: list[bytes] = []
        """Every line as it came, for clients that read lines and not events."""
        self.ended = False
        self._changed = threading.Condition()
        self._listeners: list[Callable[[Seen], None]] = []
        self._thread: threading.Thread | None = None
        self.sock = connect(path)
        try:
            self._greet(target, headers or {})
        except BaseException:
            self.sock.close()
            raise
        if self.status == 200:
            self.sock.settimeout(None)
            if read:
                self._thread = threading.Thread(target=self._read, daemon=True)
                self._thread.start()
        else:
            self.body = json.loads(self._file.read(int(self.headers["content-length"])))
            self.cut()

    def _greet(self, target: str, headers: dict[str, str]) -> None:
        """Send the request and read the head of the answer."""
        fields = {"Host": "localhost", "Accept": "text/event-stream"} | headers
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.sock.sendall(f"GET {target} HTTP/1.1\r\n{head}\r\n".encode())
        self._file = self.sock.makefile("rb")
        line = self._file.readline()
        if not line:
            self._file.close()
            raise ConnectionResetError("the server hung up")
        self.status = int(line.split()[1])
        self.headers: dict[str, str] = {}
        while line := self._file.readline().strip():
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()

    def cut(self) -> None:
        """Drop the connection without a word."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        if self._thread:
            self._thread.join(LIMIT_S)
        self._file.close()
        self.sock.close()

    @property
    def last_id(self) -> str:
        """What a reconnecting client would send as `Last-Event-ID`."""
        with self._changed:
            return self.events[-1].id

    def mark(self) -> int:
        """How many events there are so far; `wait(…, since=mark)` looks only at later ones."""
        with self._changed:
            return len(self.events)

    def seen(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        """The payloads so far of one kind with these fields."""
        with self._changed:
            return [event.data for event in self.events if event.kind == kind and event.has(**fields)]

    def durable(self) -> list[Seen]:
        """The events of the log so far."""
        with self._changed:
            return [event for event in self.events if event.is_durable]

    def wait(self, check: Callable[[Seen], bool], what: str, *, since: int = 0) -> Seen:
        """Wait for an event; one that has come already counts."""
        return self._wait(lambda: next((e for e in self.events[since:] if check(e)), None), what)

    def next(self, kind: str, action: str = "", *, since: int = 0, **fields: Any) -> dict[str, Any]:
        """Wait for an event of a kind with these fields in its payload; gives back the payload."""

        def check(event: Seen) -> bool:
            return event.kind == kind and action in {"", event.action} and event.has(**fields)

        return self.wait(check, f"{kind}/{action or '*'} {fields}", since=since).data

    def completion(self, run_id: str) -> dict[str, Any]:
        return self.next("run_complete", run_id=run_id)

    def speaking(self, session_id: str, text: str) -> dict[str, Any]:
        """Wait until an assistant message of the session holds the text."""

        def check(event: Seen) -> bool:
            data = event.data
            return event.kind == "message" and data["session_id"] == session_id and text in text_of(data)

        return self.wait(
            lambda e: check(e) and e.data["role"] == "assistant", f"an answer with {text!r}"
        ).data

    def listen(self, listener: Callable[[Seen], None]) -> None:
        """Call it with every event, from the first on."""
        with self._changed:
            for event in self.events:
                listener(event)
            self._listeners.append(listener)

    def wait_end(self) -> None:
        self._wait(lambda: self.ended, "the end of the stream", even_ended=True)

    def _wait(self, look: Callable[[], Any], what: str, *, even_ended: bool = False) -> Any:
        ends = time.monotonic() + LIMIT_S
        with self._changed:
            while not (found := look()):
                left = ends - time.monotonic()
                if left <= 0 or (self.ended and not even_ended):
                    tail = "\n  ".join(map(str, self.events[-30:]))
                    state = "ended" if self.ended else "open"
                    raise AssertionError(f"waited for {what}; the stream is {state}; events:\n  {tail}")
                self._changed.wait(left)
            return found

    def _read(self) -> None:
        event_id, data = "", ""
        try:
            for raw in self._file:
                line = raw.rstrip(b"\n")
                self.lines.append(line)
                name, _, value = line.decode().partition(":")
                if name == "id":
                    event_id = value.removeprefix(" ")
                elif name == "data":
                    data += value.removeprefix(" ")
                elif not line and data:
                    self._add(event_id, json.loads(data))
                    data = ""
        except (OSError, ValueError):
            pass
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def _add(self, event_id: str, envelope: dict[str, Any]) -> None:
        inner = envelope["payload"]
        with self._changed:
            seen = Seen(event_id, envelope["type"], inner["type"], inner["payload"])
            self.events.append(seen)
            for listener in self._listeners:
                listener(seen)
            self._changed.notify_all()
