"""The API's description of itself, made from the endpoints."""

from __future__ import annotations

from typing import Any

from bullpen.server import openapi
from bullpen.server.exchange import Reply
from bullpen.server.routing import Endpoint, get


@get("/v1/openapi.json", access="watch", needs_store=False, answer=dict[str, Any])
async def openapi_document(endpoints: tuple[Endpoint, ...]) -> bytes:
    """Describe every call as an OpenAPI 3.1 document."""
    return openapi.document_json(endpoints)


@get("/v1/events.json", access="watch", needs_store=False, answer=dict[str, Any])
async def events_document() -> bytes:
    """Describe every event of the stream as a JSON Schema."""
    return openapi.events_json()


@get("/v1/docs/", access="watch", needs_store=False, answer=str, media="text/html")
async def api_page(endpoints: tuple[Endpoint, ...]) -> Reply:
    """Show all calls on one page."""
    policy = (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'")
    return Reply(200, openapi.page(endpoints), b"text/html; charset=utf-8", (policy,))


@get("/v1/docs/doc.json", access="watch", needs_store=False, answer=dict[str, Any])
async def openapi_document_too(endpoints: tuple[Endpoint, ...]) -> bytes:
    """Answer the OpenAPI document at the reference's address as well."""
    return openapi.document_json(endpoints)
