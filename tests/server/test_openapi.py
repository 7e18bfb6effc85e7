"""The API's description of itself: complete, valid, and true to what is sent."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import jsonschema_rs
import pytest
from tests.server.fake_host import FakeHost, app_of, client_of, over_unix
from tests.server.test_routes import CALLS

from bullpen.schema.events import KINDS
from bullpen.schema.wire import encode
from bullpen.server.app import endpoints
from bullpen.server.openapi import document, events_schema
from bullpen.server.routing import Router

ENDPOINTS = tuple(endpoints())
DOCUMENT: dict[str, Any] = json.loads(encode(document(ENDPOINTS)))
"""As clients read it."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(over_unix(app_of(FakeHost()))) as client:
        yield client


def test_every_endpoint_is_described() -> None:
    described = {(m.upper(), path) for path, item in DOCUMENT["paths"].items() for m in item}
    assert described == {(e.method, e.path) for e in ENDPOINTS}


def test_operations_have_names_of_their_own_and_say_what_they_do() -> None:
    operations = [o for item in DOCUMENT["paths"].values() for o in item.values()]
    assert len({o["operationId"] for o in operations}) == len(operations)
    assert [o["operationId"] for o in operations if not o["summary"].endswith(".")] == []


def test_every_gap_in_a_path_is_a_parameter() -> None:
    for path, item in DOCUMENT["paths"].items():
        for operation in item.values():
            named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert (path, named) == (path, set(re.findall(r"{(\w+)}", path)))


def test_every_reference_leads_somewhere() -> None:
    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from ([value["$ref"]] if isinstance(value.get("$ref"), str) else [])
            for inner in value.values():
                yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    for reference in set(references(DOCUMENT)):
        place = DOCUMENT
        for key in reference.removeprefix("#/").split("/"):
            place = place[key]


def test_a_prompt_is_described_in_full() -> None:
    operation = DOCUMENT["paths"]["/v1/workspaces/{workspace_id}/agent"]["post"]
    assert [(p["name"], p["in"], p["required"]) for p in operation["parameters"]] == [
        ("workspace_id", "path", True),
        ("Idempotency-Key", "header", False),
        ("Bullpen-Author", "header", False),
        ("Bullpen-Client-Id", "header", False),
        ("Bullpen-Client-Id", "header", False),
    ]
    body = {"schema": {"$ref": "#/components/schemas/NewPrompt"}}
    assert operation["requestBody"] == {"required": True, "content": {"application/json": body}}
    assert sorted(operation["responses"]) == [
        "202",
        "400",
        "401",
        "403",
        "404",
        "408",
        "409",
        "413",
        "500",
        "502",
        "503",
        "507",
    ]
    assert (operation["x-access"], operation["tags"]) == ("prompt", ["agent"])


def test_a_stream_needs_a_client() -> None:
    operation = DOCUMENT["paths"]["/v1/workspaces/{workspace_id}/events"]["get"]
    client_id = next(p for p in operation["parameters"] if p["name"] == "client_id")
    assert client_id == {
        "name": "client_id",
        "in": "query",
        "required": True,
        "schema": {"type": "string", "format": "uuid"},
    }
    assert list(operation["responses"]["200"]["content"]) == ["text/event-stream"]


def test_releasing_never_misses_a_workspace() -> None:
    """404 on that call would mean something else to the reference's client."""
    operation = DOCUMENT["paths"]["/v1/workspaces/{workspace_id}"]["delete"]
    assert "404" not in operation["responses"]


@pytest.mark.parametrize(("request_line", "body"), [c[:2] for c in CALLS], ids=[c[0] for c in CALLS])
async def test_requests_and_answers_are_as_described(
    http: httpx.AsyncClient, request_line: str, body: Any
) -> None:
    method, target = request_line.split()
    match = Router(ENDPOINTS).match(target.partition("?")[0].split("/")[1:])
    assert match is not None
    operation = DOCUMENT["paths"][match.methods[method].path][method.lower()]
    answer = await http.request(method, target, json=body)
    described = operation["responses"][str(answer.status_code)]
    if "content" in described:
        check(answer.json(), described["content"]["application/json"]["schema"])
    else:
        assert answer.content == b""
    if body is not None:
        check(body, operation["requestBody"]["content"]["application/json"]["schema"])


async def test_errors_are_as_described(http: httpx.AsyncClient) -> None:
    answer = await http.get("/v1/workspaces/gone")
    check(answer.json(), {"$ref": "#/components/schemas/ErrorBody"})


def check(value: Any, schema: dict[str, Any]) -> None:
    jsonschema_rs.validate({**schema, "components": DOCUMENT["components"]}, value)


async def test_the_documents_are_served(http: httpx.AsyncClient) -> None:
    assert (await http.get("/v1/openapi.json")).json() == DOCUMENT
    assert (await http.get("/v1/docs/doc.json")).json() == DOCUMENT
    assert (await http.get("/v1/events.json")).json() == json.loads(encode(events_schema()))


async def test_the_page_lists_every_call(http: httpx.AsyncClient) -> None:
    answer = await http.get("/v1/docs/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert [e.path for e in ENDPOINTS if e.path not in answer.text] == []


# Events


def test_every_kind_of_event_is_described() -> None:
    schema = events_schema()
    jsonschema_rs.meta.validate(schema)
    kinds = [option["properties"]["type"]["const"] for option in schema["oneOf"]]
    assert kinds == sorted(KINDS.values())


def test_an_event_fits_its_description_and_no_other() -> None:
    event = {
        "type": "run_complete",
        "payload": {"type": "updated", "payload": {"session_id": "s", "message_id": ""}},
    }
    jsonschema_rs.validate(events_schema(), event)
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(events_schema(), event | {"type": "session"})
