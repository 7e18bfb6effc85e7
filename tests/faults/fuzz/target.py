"""What is fuzzed: a real server with something in it, and the checks that every answer has to pass."""

from __future__ import annotations

import contextlib
import json
import socket
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import schemathesis
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi import checks as openapi
from tests.journeys.server import Bullpen, Client, new_home

UNSAFE = {
    "POST /v1/control",
    "GET /v1/workspaces/{workspace_id}/events",
    "POST /v1/workspaces/{workspace_id}/config/copilot-login",
}
"""One ends the server, one never ends, and one asks somebody far away who need not be there."""

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
    answers: int = 0

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
        self.answers += 1


@contextlib.contextmanager
def new_target() -> Iterator[Target]:
    """A server of its own, on TCP and its socket."""
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
    """Every field of a request body is optional; requests that leave most of them out are all refused alike. A document, which is an
    answer elsewhere, says itself what it needs."""
    for item in document["paths"].values():
        for operation in item.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                body = document["components"]["schemas"][media["schema"]["$ref"].rpartition("/")[2]]
                body["required"] = body.get("required") or list(body["properties"])
    return document
