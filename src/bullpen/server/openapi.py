"""The API described in its own terms: OpenAPI for the calls, JSON Schema for the events, one page for people.

All three are made from the endpoints and the types, so they cannot fall behind. They describe what is
sent when it is sent well; the server also reads what the reference's looser rules allow.
"""

from __future__ import annotations

from functools import cache
from html import escape
from http import HTTPStatus
from inspect import getdoc
from types import NoneType
from typing import Any

import msgspec

from bullpen import __version__
from bullpen.schema.api import ErrorBody
from bullpen.schema.events import KINDS
from bullpen.schema.wire import encode
from bullpen.server.routing import Endpoint, Input

_ERROR: dict[str, Any] = {"$ref": "#/components/responses/Error"}
_JSON = "application/json"


@cache
def document_json(endpoints: tuple[Endpoint, ...]) -> bytes:
    """The bytes of `document`."""
    return encode(document(endpoints))


@cache
def events_json() -> bytes:
    """The bytes of `events_schema`."""
    return encode(events_schema())


def document(endpoints: tuple[Endpoint, ...]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these endpoints."""
    schemas = _Schemas(endpoints)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Bullpen",
            "version": __version__,
            "description": "One server for a coding agent that any number of clients share.",
        },
        "paths": paths,
        # A unix socket asks for nothing, TCP for the token.
        "security": [{"token": []}, {}],
        "components": {
            "schemas": schemas.components,
            "responses": {
                "Error": {
                    "description": "The call failed; the message says why.",
                    "content": {_JSON: {"schema": schemas.of(ErrorBody)}},
                }
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Schemas:
    """The schema of every type that endpoints take or give. Structs are named once and referred to."""

    def __init__(self, endpoints: tuple[Endpoint, ...]) -> None:
        kinds: list[Any] = [ErrorBody]
        for endpoint in endpoints:
            kinds += [endpoint.answer, *(i.kind for i in _sent(endpoint))]
        found, self.components = msgspec.json.schema_components(
            kinds, ref_template="#/components/schemas/{name}"
        )
        self._found = list(zip(kinds, found, strict=True))

    def of(self, kind: Any) -> dict[str, Any]:
        return next(schema for known, schema in self._found if known == kind)


def _sent(endpoint: Endpoint) -> list[Input]:
    """What a caller sends: everything but what is handed in from inside."""
    sent = [i for i in endpoint.inputs if i.source != "given"]
    return sent if endpoint.body is None else [*sent, endpoint.body]


def _operation(endpoint: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    summary, _, description = (getdoc(endpoint.function) or endpoint.name).partition("\n\n")
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": summary,
        "tags": [tag_of(endpoint)],
        "x-access": endpoint.access,
        "parameters": _parameters(endpoint, schemas),
        "responses": _responses(endpoint, schemas),
    }
    if description:
        operation["description"] = description
    if endpoint.access == "open":
        operation["security"] = []
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": endpoint.body.required,
            "content": {_JSON: {"schema": schemas.of(endpoint.body.kind)}},
        }
    return operation


def tag_of(endpoint: Endpoint) -> str:
    """The noun an endpoint belongs to: its module's name."""
    return endpoint.function.__module__.rpartition(".")[2]


def _parameters(endpoint: Endpoint, schemas: _Schemas) -> list[dict[str, Any]]:
    named = {i.name for i in endpoint.inputs if i.source == "path"}
    implied = [_path_parameter(n, {"type": "string"}) for n in _gaps(endpoint.path) if n not in named]
    listed = [
        parameter
        for sent in endpoint.inputs
        if sent.source != "given"
        for parameter in _parameters_of(sent, schemas.of(sent.kind))
    ]
    return implied + listed


def _parameters_of(sent: Input, schema: dict[str, Any]) -> list[dict[str, Any]]:
    if sent.source == "path":
        return [_path_parameter(sent.name, schema)]
    if sent.source == "header":
        # `Host` is the connection's, not the caller's to fill in.
        names = (name for name in sent.headers if name != "Host")
        return [{"name": name, "in": "header", "required": False, "schema": schema} for name in names]
    return [{"name": sent.name, "in": "query", "required": sent.required, "schema": schema}]


def _path_parameter(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _gaps(path: str) -> list[str]:
    return [segment[1:-1] for segment in path.split("/") if segment.startswith("{")]


def _responses(endpoint: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    success: dict[str, Any] = {"description": HTTPStatus(endpoint.status).phrase}
    if endpoint.media != _JSON:
        success["content"] = {endpoint.media: {"schema": {"type": "string"}}}
    elif endpoint.answer is not NoneType:
        success["content"] = {_JSON: {"schema": schemas.of(endpoint.answer)}}
    return {str(endpoint.status): success} | {str(status): _ERROR for status in _error_statuses(endpoint)}


def _error_statuses(endpoint: Endpoint) -> list[int]:
    """Every status besides success that a caller should be ready for."""
    statuses = {403} if endpoint.access == "open" else {401, 403}
    if endpoint.needs_store:
        statuses |= {500, 503}
    if (endpoint.needs_store and _gaps(endpoint.path)) or _sent(endpoint):
        statuses |= {400}
    if endpoint.has_workspace or (endpoint.method == "GET" and _gaps(endpoint.path)):
        statuses |= {404}
    if endpoint.body is not None:
        statuses |= {408, 413}
    if endpoint.needs_store and (endpoint.method != "GET" or endpoint.streams):
        statuses |= {409, 502, 507}
    return sorted(statuses)


def events_schema() -> dict[str, Any]:
    """The JSON Schema of one `data:` line of the event stream."""
    kinds = sorted(KINDS.items(), key=lambda item: item[1])
    payloads, definitions = msgspec.json.schema_components(
        [cls for cls, _ in kinds], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Event",
        "description": "One event. Kinds that a client does not know are to be skipped.",
        "oneOf": [_envelope(kind, payload) for (_, kind), payload in zip(kinds, payloads, strict=True)],
        "$defs": definitions,
    }


def _envelope(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    action = {"enum": ["created", "updated", "deleted"]}
    return _object(type={"const": kind}, payload=_object(type=action, payload=payload))


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Bullpen API</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem }}
td {{ padding: .15rem .8rem .15rem 0; vertical-align: top }} code {{ font-size: 13px }}
</style></head><body><h1>Bullpen {version}</h1>
<p>Machine-readable: <a href="/v1/openapi.json">openapi.json</a>, <a href="/v1/events.json">events.json</a>.</p>
{sections}
</body></html>
"""


@cache
def page(endpoints: tuple[Endpoint, ...]) -> bytes:
    """All calls on one HTML page."""
    rows: dict[str, list[str]] = {}
    for e in endpoints:
        summary = (getdoc(e.function) or "").partition("\n\n")[0]
        row = f"<tr><td><code>{e.method}</code><td><code>{escape(e.path)}</code><td>{escape(summary)}<td>{e.access}"
        rows.setdefault(tag_of(e), []).append(row)
    sections = "\n".join(f"<h2>{tag}</h2><table>{''.join(body)}</table>" for tag, body in rows.items())
    return _PAGE.format(version=escape(__version__), sections=sections).encode()
