"""A host on the loopback that plays a model's vendor for a real server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REFUSALS = {
    401: {"type": "authentication_error", "message": "invalid x-api-key"},
    529: {"type": "overloaded_error", "message": "Overloaded"},
}


class Vendor:
    """Gives its answers in turn: a stream, or a status with which to refuse."""

    def __init__(self) -> None:
        self.answers: list[bytes | int] = []
        self.asked: list[dict[str, Any]] = []
        self.content_type = "text/event-stream"
        vendor = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                vendor.asked.append(body)
                said = vendor.answers.pop(0)
                kind = vendor.content_type
                if isinstance(said, int):
                    status, kind = said, "application/json"
                    said = json.dumps({"type": "error", "error": REFUSALS[status]}).encode()
                else:
                    status = 200
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Retry-After", "0")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@contextmanager
def playing_vendor() -> Iterator[Vendor]:
    playing = Vendor()
    thread = threading.Thread(target=playing.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield playing
    finally:
        playing.server.shutdown()
        thread.join()
        playing.server.server_close()
