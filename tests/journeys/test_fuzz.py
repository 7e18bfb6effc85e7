"""Anything on any route: a running server answers with what its own description allows, or hangs up, and lives on."""

from __future__ import annotations

import contextlib
import json
import socket
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis.checks import CheckFunction
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks as openapi
from tests.journeys.server import Bullpen, Client, new_home
from tests.journeys.stream import connect

UNSAFE = {"POST /v1/control", "GET /v1/workspaces/{workspace_id}/events"}
"""The one ends the server, the other never ends."""

EXAMPLES = 15
"""Per operation and mode: both modes together take some twenty seconds."""

CHECKS: list[CheckFunction] = [
    schemathesis.checks.not_a_server_error,
    openapi.content_type_conformance,
    openapi.status_code_conformance,
    openapi.response_schema_conformance,
]


@dataclass
class Target:
    """A server on TCP with a workspace, a session and a token: enough for a request to get past the door."""

    bullpen: Bullpen
    client: Client
    session_id: str
    base_url: str
    token: str
    schema: Any

    def aim(self, case: Any, known: bool) -> Any:
        """Point a made-up request at things that exist, and away from what would do harm on this machine."""
        if known:
            self._name_known(case.path_parameters, case)
            self._name_known(case.query, case)
            if isinstance(case.body, dict):
                self._name_known(case.body, case)
        if isinstance(case.body, dict):
            for key in ("path", "data_dir"):
                if isinstance(case.body.get(key), str) and case.body[key]:
                    case.body[key] = f"{self.bullpen.home}/made/{case.body[key].replace('..', '')}"
            if isinstance(case.body.get("command"), str):
                case.body["command"] = "true #" + " ".join(case.body["command"].split())
        return case

    def _name_known(self, values: dict[str, Any], case: Any) -> None:
        """Right names for what has to exist, so that a request gets as far as its own part."""
        leaves = case.method == "DELETE" or case.path == "/v1/workspaces"
        names = {
            "workspace_id": self.client.info["id"],
            "client_id": str(uuid.uuid4()) if leaves else self.client.client_id,
            "session_id": self.client.session() if leaves else self.session_id,
            "action": "deny",
            "kind": "string",
            "key": "options.tui.theme",
            "model_type": "large",
            "scope": 1,
            "provider_id": "script",
        }
        for name in names.keys() & values.keys():
            if type(values[name]) is type(names[name]):
                values[name] = names[name]

    def check(self, case: Any) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        response = case.call(base_url=self.base_url, headers=headers, timeout=20)
        case.validate_response(response, checks=CHECKS)


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with new_home() as bullpen:
        bullpen.start("--host", f"tcp://127.0.0.1:{port}")
        client = bullpen.attach(bullpen.project({"say": "hi"}))
        client.stream()
        document = json.loads(bullpen.call("GET", "/openapi.json").content)
        token = (bullpen.data / "token").read_text().strip()
        schema = schemathesis.openapi.from_dict(with_full_bodies(document))
        yield Target(bullpen, client, client.session(), f"http://127.0.0.1:{port}", token, schema)


def with_full_bodies(document: Any) -> Any:
    """Every field of a request body is optional; requests that leave most of them out are all refused alike."""
    for item in document["paths"].values():
        for operation in item.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                body = document["components"]["schemas"][media["schema"]["$ref"].rpartition("/")[2]]
                body["required"] = list(body["properties"])
    return document


def operations(target: Target, mode: GenerationMode) -> list[Any]:
    """Those that may be tried. What takes neither body nor query cannot be called in a wrong way."""
    found = [each.ok() for each in target.schema.get_all_operations()]
    assert len(found) > 70
    safe = [operation for operation in found if operation.label not in UNSAFE]
    return [o for o in safe if mode is GenerationMode.POSITIVE or list(o.body) or list(o.query)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda m: m.value)
def test_every_operation_answers_as_described(target: Target, mode: GenerationMode) -> None:
    """Made-up requests, right and wrong, to every operation: never a 500, never a status or type nobody announced."""
    failures: list[str] = []
    for operation in operations(target, mode):
        try:
            sweep(target, operation, mode)
        except BaseExceptionGroup as group:
            failures.append(f"{operation.label}: {'; '.join(str(each) for each in group.exceptions)}")
    assert failures == [], "\n\n".join(failures)
    assert target.bullpen.call("GET", "/health").status_code == 200
    assert "Traceback (most recent call last)" not in target.bullpen.log


def sweep(target: Target, operation: Any, mode: GenerationMode) -> None:
    """Make requests up and check each answer."""

    @hypothesis.settings(
        max_examples=EXAMPLES,
        # The same requests every time: what is found is to be found again.
        derandomize=True,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(
        case=operation.as_strategy(generation_mode=mode), known=st.sampled_from([True, True, True, False])
    )
    def run(case: Any, known: bool) -> None:
        target.check(target.aim(case, known))

    run()


@pytest.mark.parametrize(
    "paths",
    [
        *(
            {"path": p}
            for p in ("a\0b", "~nobody-at-all/x", "loop/x", "file", "file/x", "a" * 300, "a/" * 3_000)
        ),
        *(
            {"path": "ok", "data_dir": d}
            for d in ("a\0b", "~nobody-at-all", "loop/x", "file", "file/x", "a" * 300)
        ),
    ],
    ids=lambda paths: "-".join(paths.values())[:20].replace("\0", "NUL"),
)
def test_a_path_that_cannot_be_used_is_refused(target: Target, paths: dict[str, str]) -> None:
    """What is wrong with a path that a client names is the client's to mend, and it is told what."""
    places = target.bullpen.home / "places"
    places.mkdir(exist_ok=True)
    (places / "file").write_text("")
    if not (places / "loop").is_symlink():
        (places / "loop").symlink_to("loop")
    body = {key: path if path.startswith("~") else f"{places}/{path}" for key, path in paths.items()}
    answer = target.bullpen.call("POST", "/workspaces", {**body, "client_id": str(uuid.uuid4())})
    assert (answer.status_code, "cannot be used as a" in answer.json()["message"]) == (400, True)


def test_an_environment_that_cannot_be_used_is_left_out(target: Target) -> None:
    """Variables without a name, without a value's sign or with a NUL byte are no reason to fail."""
    body = {"path": f"{target.bullpen.home}/odd", "client_id": str(uuid.uuid4())}
    env = ["A=\0", "HOME=/\0", "XDG_CONFIG_HOME=/\0", "=x", "plain", "", "HOME=relative", "B=\ud800"]
    workspace = target.bullpen.ok("POST", "/workspaces", content=json.dumps({**body, "env": env}))
    target.bullpen.ok("POST", f"/workspaces/{workspace['id']}/agent/sessions/x/shell", {"command": "true"})


@pytest.mark.parametrize(
    "query",
    [
        *("", "?client_id=", "?client_id=x", "?client_id=%00", "?client_id=ä", "?client_id=" + "a" * 5_000),
        *("?client_id[]=1", "?CLIENT_ID=1", "?;;&&==", "?" + "a=b&" * 2_000, "?client_id=%ff%fe", "?%"),
    ],
)
def test_an_event_stream_with_a_bad_query_is_refused(target: Target, query: str) -> None:
    answer = target.client.call("GET", f"/events{query}")
    assert (answer.status_code, bool(answer.json()["message"])) == (400, True)


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "0",
        "-",
        "x-1",
        "-1",
        "1-2-3",
        "٣-٤",
        "9" * 200,
        "{epoch}--1",
        "{epoch}-" + "9" * 30,
        "{epoch}-1e3",
    ],
)
def test_any_cursor_gets_a_stream(target: Target, cursor: str) -> None:
    """What cannot be served is answered with a resync, never with an error or with silence."""
    epoch = target.client.call("GET", "/sessions").headers["bullpen-cursor"].rpartition("-")[0]
    shown = cursor.format(epoch=epoch).encode().decode("latin-1")
    stream = target.client.stream(after=shown)
    if cursor:
        assert stream.next("resync")["reason"]
    stream.cut()


# Bytes

REQUESTS: dict[str, bytes] = {
    "nothing": b"",
    "noise": bytes(range(256)),
    "NUL": b"\0" * 100,
    "half a request line": b"GET /v1/hea",
    "half a header": b"GET /v1/health HTTP/1.1\r\nHost: a",
    "half a body": b"POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
    "no version": b"GET /v1/health\r\n\r\n",
    "old version": b"GET /v1/health HTTP/0.9\r\n\r\n",
    "new version": b"GET /v1/health HTTP/3.0\r\nHost: a\r\n\r\n",
    "unknown method": b"BREW /v1/health HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in the path": b"GET /v1/\0health HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in a header": b"GET /v1/health HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
    "encoded NUL": b"GET /v1/workspaces/%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    "bytes above 127": b"GET /v1/\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
    "bad escapes": b"GET /v1/workspaces/%zz%f HTTP/1.1\r\nHost: a\r\n\r\n",
    "climbing": b"GET /v1/../../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
    "encoded climbing": b"GET /v1/workspaces/..%2f..%2fetc HTTP/1.1\r\nHost: a\r\n\r\n",
    "absolute form elsewhere": b"GET http://example.org/v1/nowhere HTTP/1.1\r\nHost: a\r\n\r\n",
    "authority form": b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "two lengths": b"POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
    "negative length": b"POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n{}",
    "length in words": b"POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: two\r\n\r\n{}",
    "huge length": b"POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n{}",
    "length and chunks": b"POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET",
    "chunks twice": b"POST /v1/control HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "unknown coding": b"POST /v1/control HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity, xchunked\r\n\r\n{}",
    "blank before the colon": b"POST /v1/control HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "bad chunk size": b"POST /v1/control HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "huge chunk size": b"POST /v1/control HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"f" * 40
    + b"\r\n",
    "folded header": b"GET /v1/nowhere HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
    "header without a colon": b"GET /v1/health HTTP/1.1\r\nHost a\r\n\r\n",
    "empty header name": b"GET /v1/health HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
    "long path": b"GET /v1/" + b"a" * 60_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "long header": b"GET /v1/health HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    "many headers": b"GET /v1/health HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 20_000 + b"\r\n",
    "header without end": b"GET /v1/health HTTP/1.1\r\nX: " + b"a" * 1_000_000,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x01" * 512,
    "broken preface": b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    "preface and noise": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 200,
    "deep JSON": b"POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000,
    "broken JSON": b'POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n{"a":',
    "lone surrogate": b'POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n{"command":"\\ud800"}',
    "bytes that are no text": b'POST /v1/control HTTP/1.1\r\nHost: a\r\nContent-Length: 16\r\n\r\n{"command":"\xff\xfe"}',
}

SILENT = {"nothing", "half a request line", "half a header", "half a body", "preface and noise"}
"""Who hangs up in the middle of a request gets no answer, and HTTP/2 has its own way to say no."""


@pytest.mark.parametrize("name", REQUESTS)
def test_bad_bytes_are_refused(target: Target, name: str) -> None:
    """A status from 400 on that is not 500, or a closed connection; and the next request is served."""
    statuses = statuses_of(exchange(target.bullpen.socket, REQUESTS[name]))
    assert len(statuses) == (0 if name in SILENT else 1)
    assert all(400 <= status < 500 or status in {307, 505} for status in statuses)
    assert target.bullpen.call("GET", "/health").status_code == 200


def test_a_hidden_request_is_not_served(target: Target) -> None:
    """What two parsers would cut differently is refused whole: the second request in it never runs."""
    hidden = (
        b"POST /v1/workspaces/" + target.client.info["id"].encode() + b"/sessions HTTP/1.1\r\nHost: a\r\n"
    )
    hidden += b'Content-Length: 21\r\n\r\n{"title": "Smuggled"}'
    length = b"Content-Length: %d\r\n" % (len(hidden) + 5)
    for pair in (
        length + b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\n" + length,
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n" + length,
        b"Content-Length: 5\r\n" + length,
    ):
        head = b"POST /v1/control HTTP/1.1\r\nHost: a\r\n" + pair + b"\r\n0\r\n\r\n"
        assert statuses_of(exchange(target.bullpen.socket, head + hidden)) == [400], pair
    titles = {session["title"] for session in target.client.ok("GET", "/sessions")}
    assert "Smuggled" not in titles


def statuses_of(answer: bytes) -> list[int]:
    return [int(line.split()[1]) for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]


def exchange(path: str, data: bytes) -> bytes:
    """Send, say that no more will come, and take everything until the server hangs up."""
    answer = b""
    with connect(path) as sock, contextlib.suppress(ConnectionError, BrokenPipeError):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while piece := sock.recv(65536):
            answer += piece
    return answer
