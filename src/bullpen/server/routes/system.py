"""The server itself: is it alive, what is it, and please stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from bullpen.errors import BadRequest
from bullpen.schema.agent import ServerStats, VersionInfo
from bullpen.schema.api import Control
from bullpen.server.routing import Header, delete, get, parse_uuid, post

if TYPE_CHECKING:
    from bullpen.workspace.host import Host

REFERENCE_HOST = "api.crush.localhost"
"""What the reference client on a socket calls every server. It would replace ours, so it may not stop it."""


@get("/v1/health", access="open", needs_store=False)
async def health() -> None:
    """Say that the server is alive."""


@get("/v1/version", access="watch", needs_store=False)
async def version(host: Host) -> VersionInfo:
    """Say what the server is."""
    return host.version()


@get("/v1/stats", access="watch", needs_store=False)
async def stats(host: Host) -> ServerStats:
    """Say what the server counted since its start, and what it holds now."""
    return host.stats()


@get("/v1/config", access="watch", needs_store=False)
async def server_config() -> dict[str, Any]:
    """Answer an empty object: the server keeps its own settings to itself."""
    return {}


@post("/v1/control", access="admin")
async def control(host: Host, body: Control, called: Annotated[str, Header("Host")] = "") -> None:
    """Stop the server if it hosts no workspace."""
    await host.control(body.command, keep_alive=called.partition(":")[0].lower() == REFERENCE_HOST)


@delete("/v1/clients/{client_id}", access="watch")
async def retire_client(host: Host, client_id: str) -> None:
    """Give up all claims of a client for good."""
    await host.retire(valid_client_id(client_id))


def valid_client_id(text: str) -> str:
    """The usual spelling of a client id. Raises `BadRequest` in the words of create and retire."""
    if not text:
        raise BadRequest("invalid client_id")
    try:
        return parse_uuid(text)
    except ValueError as exc:
        raise BadRequest(f"invalid client_id: {exc}") from None
