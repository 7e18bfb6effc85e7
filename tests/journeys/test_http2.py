"""HTTP/2 with prior knowledge on the same socket: several streams on one connection, an event stream among them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest
from tests.journeys.server import Bullpen, until
from tests.journeys.stream import connect

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Connection:
    """One connection that begins with the preface; what arrives is kept by stream."""

    def __init__(self, path: str) -> None:
        self.sock = connect(path)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        opening = self.h2.data_to_send()
        assert opening.startswith(PREFACE)
        self.sock.sendall(opening)
        self.statuses: dict[int, int] = {}
        self.bodies: dict[int, bytes] = {}
        self.ended: set[int] = set()

    def request(self, method: str, path: str, body: Any = None) -> int:
        """Send a request and do not wait; gives back its stream."""
        stream = self.h2.get_next_available_stream_id()
        head = [
            (":method", method),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", f"/v1{path}"),
        ]
        self.h2.send_headers(stream, head, end_stream=body is None)
        if body is not None:
            self.h2.send_data(stream, json.dumps(body).encode(), end_stream=True)
        self.flush()
        return stream

    def flush(self) -> None:
        self.sock.sendall(self.h2.data_to_send())

    def read_until(self, check: Callable[[], bool]) -> None:
        while not check():
            data = self.sock.recv(65536)
            assert data, "the server hung up"
            for event in self.h2.receive_data(data):
                self._take(event)
            self.flush()

    def answer(self, stream: int) -> tuple[int, Any]:
        """Status and decoded body of a whole answer."""
        self.read_until(lambda: stream in self.ended)
        body = self.bodies.get(stream, b"")
        return self.statuses[stream], json.loads(body) if body else None

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.answer(self.request(method, path, body))
        assert status in {200, 202}, answer
        return answer

    def reset(self, stream: int) -> None:
        self.h2.reset_stream(stream)
        self.flush()

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived(headers=headers, stream_id=stream):
                self.statuses[stream] = int(dict(headers)[":status"])  # type: ignore[index]  # h2 was asked for text
            case h2.events.DataReceived(data=data, stream_id=stream):
                self.bodies[stream] = self.bodies.get(stream, b"") + data
                self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
            case h2.events.StreamEnded(stream_id=stream):
                self.ended.add(stream)


@pytest.fixture
def connection(shared: Bullpen) -> Iterator[Connection]:
    connection = Connection(shared.socket)
    yield connection
    connection.sock.close()


def test_a_whole_turn_on_one_connection(shared: Bullpen, connection: Connection) -> None:
    """The event stream, the prompt and the reading of the result share it and do not wait for each other."""
    client_id = str(uuid.uuid4())
    path = str(shared.project({"say": "over two"}))
    workspace = connection.ask("POST", "/workspaces", {"path": path, "client_id": client_id})
    base = f"/workspaces/{workspace['id']}"
    events = connection.request("GET", f"{base}/events?client_id={client_id}")
    session = connection.ask("POST", f"{base}/sessions", {"title": "Two"})
    connection.ask("POST", f"{base}/agent", {"session_id": session["id"], "prompt": "hi", "run_id": "r"})
    connection.read_until(lambda: b'"run_complete"' in connection.bodies.get(events, b""))
    messages = connection.ask("GET", f"{base}/sessions/{session['id']}/messages")
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert (connection.statuses[events], events in connection.ended) == (200, False)


def test_many_requests_at_once(connection: Connection) -> None:
    """Answers belong to their own stream, whatever order they come in."""
    sent = [
        connection.request("GET", path) for path in ("/health", "/version", "/workspaces", "/nowhere") * 10
    ]
    connection.read_until(lambda: set(sent) <= connection.ended)
    assert [connection.statuses[stream] for stream in sent] == [200, 200, 200, 404] * 10


def test_a_reset_of_the_event_stream_detaches_the_client(shared: Bullpen, connection: Connection) -> None:
    """The client is gone from the workspace; the connection and its other requests go on."""
    watcher = shared.attach(shared.project({"say": "hi"}))
    client_id = str(uuid.uuid4())
    events = connection.request("GET", f"{watcher.url}/events?client_id={client_id}")
    connection.read_until(lambda: events in connection.statuses)

    def streams() -> int:
        clients = {c["client_id"]: c["streams"] for c in watcher.ok("GET", "/clients")}
        return int(clients[client_id])

    assert streams() == 1
    connection.reset(events)
    until(lambda: streams() == 0, "the client to be detached")
    assert connection.ask("GET", "/version")["version"]


def test_both_versions_share_the_socket(shared: Bullpen, connection: Connection) -> None:
    """HTTP/1.1 and HTTP/2 clients of one workspace see the same events."""
    client = shared.attach(shared.project({"say": "same for all"}))
    stream = client.stream()
    events = connection.request("GET", f"{client.url}/events?client_id={uuid.uuid4()}")
    connection.read_until(lambda: events in connection.statuses)
    stream.completion(client.prompt(client.session(), "hi"))
    connection.read_until(lambda: b'"run_complete"' in connection.bodies.get(events, b""))
    lines = [line for line in stream.lines if line.startswith((b"id:", b"data:")) and b"attached" not in line]
    for line in lines:
        assert line in connection.bodies[events]
