"""A model's host in a thread: it lists models, streams a few words, and remembers what it was asked."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ModelHost:
    """`answers` maps a path to a value, a status, a pair of both, or a function that is handed the request's body."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        self.url = ""

    def paths(self) -> list[str]:
        return [path for path, _, _ in self.asked]


def says(text: str) -> bytes:
    """A chat completion of one word as it is streamed."""
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}},
    ]
    return (
        b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    )


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who hangs up is no news: a command that is carried out beside us would be taken for having said so."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def model_host() -> Iterator[ModelHost]:
    host = ModelHost()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kind = self.headers.get("Content-Type", "")
            body: Any = json.loads(raw) if raw and "json" in kind else raw.decode()
            host.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            found = host.answers.get(self.path, 404)
            if callable(found):
                found = found(host.asked[-1][1], body)
            status = found if isinstance(found, int) else 200
            if isinstance(found, tuple):
                status, found = found
            streams = isinstance(found, bytes)
            content = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer  # noqa: N815  # the library's names

        def log_message(self, *_: Any) -> None:
            """Nothing: the test's output is its own."""

    server = _Server(("127.0.0.1", 0), Handler)
    host.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield host
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
