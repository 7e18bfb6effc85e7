"""Where mentions come from: files and folders of the workspace, and what tool servers keep to be read."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from bullpen.client.files import find_files, read_attachment
from bullpen.errors import BadRequest
from bullpen.schema.agent import McpResource
from bullpen.schema.api import Attachment, McpReadResource
from bullpen.tui.editor.drafts import Draft
from bullpen.tui.editor.mentions import Mention, mentions
from bullpen.tui.editor.popup import ROWS, Choice

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


async def find(room: Room, query: str) -> list[Choice]:
    """What may be meant, the best first: files and folders, then resources."""
    paths = await find_files(room, query, limit=ROWS)
    known = (await room.call("GET", "/mcp/resources")).read(list[McpResource])
    resources = [
        Choice(name, name, each.description or each.uri, source=(each.name, each.uri))
        for each in known
        if query.lower() in (name := f"{each.name}/{each.title or each.uri}").lower()
    ]
    room_left = max(ROWS - len(resources[:3]), 0)
    return [*(Choice(path, path, source=("", path)) for path in paths[:room_left]), *resources]


async def attached(room: Room, draft: Draft) -> tuple[Attachment, ...]:
    """All that goes with a text, files and resources as they are now. Raises what the server says against it, and `BadRequest` for
    images that the model does not see."""
    found = draft.attachments
    for mention in mentions(draft.text):
        if source := draft.mentions.get(mention.name):
            found += await _read(room, mention, source)
    if any(each.mime_type.startswith("image/") for each in found):
        await check_images(room)
    return found


async def _read(room: Room, mention: Mention, source: tuple[str, str]) -> tuple[Attachment, ...]:
    """What is mentioned, as it is now. Raises what the server says against it."""
    server, where = source
    if not server:
        return (await read_attachment(room, where, lines=mention.lines),)
    answer = await room.call("POST", "/mcp/read-resource", McpReadResource(name=server, uri=where))
    return tuple(_part(mention.name, part) for part in answer.read(list[dict[str, Any]]))


def _part(name: str, part: dict[str, Any]) -> Attachment:
    """One part of a resource; a tool server may leave anything out."""
    kind, blob = str(part.get("mime_type") or ""), part.get("blob")
    if blob:
        try:
            content = base64.b64decode(blob)
        except (ValueError, TypeError) as exc:
            raise BadRequest(f"{name} cannot be read: its tool server sends no base64") from exc
    else:
        content, kind = (
            str(part.get("text") or "").encode(),
            kind if kind.startswith("text/") else "text/plain",
        )
    return Attachment(file_path=str(part.get("uri") or name), file_name=name, mime_type=kind, content=content)


async def check_images(room: Room) -> None:
    """Raises `BadRequest` when the model sees no images."""
    agent = await room.agent()
    if agent.is_ready and not agent.model.supports_attachments:
        name = agent.model.name or agent.model_cfg.model
        raise BadRequest(f"{name} takes no images; Ctrl+L lists the models")
