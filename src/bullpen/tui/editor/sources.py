"""Where mentions come from: files and folders of the workspace, and what tool servers keep to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bullpen.errors import BadRequest
from bullpen.schema.api import Attachment
from bullpen.tui.editor.mentions import Mention
from bullpen.tui.editor.popup import Choice

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


async def find(room: Room, query: str) -> list[Choice]:
    return []


async def read(room: Room, mention: Mention, source: tuple[str, str]) -> tuple[Attachment, ...]:
    return ()


async def check_images(room: Room) -> None:
    """Raises `BadRequest` when the model sees no images."""
    agent = await room.agent()
    if agent.is_ready and not agent.model.supports_attachments:
        name = agent.model.name or agent.model_cfg.model
        raise BadRequest(f"{name} takes no images; Ctrl+L lists the models")
