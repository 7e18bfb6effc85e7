"""A server of this checkout with one workspace, a model of the driver's, and one client: what one turn takes is seen here."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench import process
from bench.driver import Driver
from bench.errors import BenchError

PATIENCE_S = 300.0

WORDS = (
    "some words that say little about anything at all, and a few more in `code`, to fill a line or two of it. "
    * 3
)


class Server:
    """This checkout's server, one workspace with a model of the driver's, and one client on its stream."""

    def __init__(self, home: Path, model: str) -> None:
        self._socket = str(home / "s.sock")
        (home / "c/bullpen").mkdir(parents=True)
        (home / "r").mkdir(mode=0o700)
        self.root = home / "w"
        self.root.mkdir()
        (home / "c/bullpen/bullpen.json").write_text(json.dumps(_config(model)))
        directories = {
            "HOME": home,
            "XDG_CONFIG_HOME": home / "c",
            "XDG_DATA_HOME": home / "d",
            "XDG_STATE_HOME": home / "d",
            "XDG_RUNTIME_DIR": home / "r",
            "TMPDIR": home,
        }
        env = {"PATH": os.environ["PATH"], **{name: str(place) for name, place in directories.items()}}
        bullpen = str(Path(sys.prefix) / "bin/bullpen")
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [bullpen, "server", "--host", f"unix://{self._socket}"],
            env=env,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._until_healthy()
        self.healthy_ms = (time.perf_counter() - began) * 1000
        self._ends: dict[str, threading.Event] = {}

    def _until_healthy(self) -> None:
        ends = time.monotonic() + 30
        while time.monotonic() < ends and self.process.poll() is None:
            try:
                self.call("GET", "/health")
            except OSError:
                time.sleep(0.002)
            else:
                return
        raise BenchError("the server does not answer")

    @property
    def host(self) -> str:
        """Where clients find it."""
        return f"unix://{self._socket}"

    def attach(self) -> None:
        client = str(uuid4())
        opened = self.call("POST", "/workspaces", {"path": str(self.root), "yolo": True, "client_id": client})
        self._url = f"/workspaces/{opened['id']}"
        stream = self._connect()
        stream.request("GET", f"/v1{self._url}/events?client_id={client}&deltas=1")
        threading.Thread(target=self._read, args=(stream.getresponse(),), daemon=True).start()

    def turn(self, prompt: str) -> float:
        """A turn in a session of its own; gives back how long it took, in seconds."""
        session = self.call("POST", f"{self._url}/sessions", {"title": "bench"})["id"]
        run_id = str(uuid4())
        ended = self._ends[run_id] = threading.Event()
        began = time.perf_counter()
        self.call("POST", f"{self._url}/agent", {"session_id": session, "prompt": prompt, "run_id": run_id})
        if not ended.wait(PATIENCE_S):
            raise BenchError("the turn does not end")
        return time.perf_counter() - began

    def long_session(self, messages: int) -> str:
        """A session with so many messages, taken in as a document; gives back its id."""
        now = int(time.time())
        finish = {"type": "finish", "data": {"reason": "stop", "time": now}}
        said = [
            {
                "id": f"m{number}",
                "role": "assistant" if number % 2 else "user",
                "session_id": "",
                "model": "m",
                "provider": "bench",
                "created_at": now,
                "updated_at": now,
                "parts": [{"type": "text", "data": {"text": f"message {number}: {WORDS}"}}, finish],
            }
            for number in range(messages)
        ]
        document = {
            "format": "bullpen-session",
            "version": 1,
            "session": {"title": "long", "created_at": now, "updated_at": now},
            "messages": said,
        }
        taken: str = self.call("POST", f"{self._url}/sessions/import", document)["session"]["id"]
        return taken

    def call_s(self, tool: str, arguments: str, calls: int) -> float:
        """What one of so many calls of a tool takes. The model's own time is what an answer without a call takes; a `%d` in the
        arguments becomes the call's number."""
        without_s = min(self.turn("BENCH[tokens=5 rate=0]") for _ in range(3))
        encoded = base64.urlsafe_b64encode(arguments.encode()).rstrip(b"=").decode()
        took_s = self.turn(f"BENCH[tokens=5 rate=0 tools={calls} tool={tool} args={encoded}]")
        return (took_s - without_s) / calls

    def cpu_s(self) -> float:
        return process.cpu_s(self.process.pid)

    def resident_mib(self) -> float:
        return process.resident_mib(self.process.pid)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        connection = self._connect()
        content = None if body is None else json.dumps(body)
        connection.request(method, f"/v1{path}", content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status >= 300:
            raise BenchError(f"{method} {path}: {answer.status} {text[:200]!r}")
        return json.loads(text) if text.strip() else None

    def _connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("x")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self._socket)
        return connection

    def _read(self, stream: http.client.HTTPResponse) -> None:
        for line in stream:
            if line.startswith(b"data:") and b'"run_complete"' in line:
                ended = self._ends.get(json.loads(line[5:])["payload"]["payload"]["run_id"])
                if ended is not None:
                    ended.set()


@contextmanager
def model_of(driver: Driver) -> Iterator[str]:
    with subprocess.Popen(
        [driver.home / "bin/fake_llm", "-listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
            if found is None:
                raise BenchError("the driver's model does not say where it listens")
            yield found[0]
        finally:
            process.kill()


@contextmanager
def server_before(model: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as home:
        server = Server(Path(home), model)
        try:
            yield server
        finally:
            server.process.terminate()
            server.process.wait()


def _config(model: str) -> dict[str, Any]:
    chosen = {"provider": "bench", "model": "m"}
    return {
        "options": {"disable_default_providers": True},
        "providers": {
            "bench": {
                "type": "openai-compat",
                "base_url": f"http://{model}/v1",
                "api_key": "x",
                "models": [{"id": "m", "context_window": 10_000_000, "default_max_tokens": 1_000_000}],
            }
        },
        "models": {"large": chosen, "small": chosen},
    }
