"""A provider's key: typed unseen, kept by the server, in force at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from bullpen.present.inert import inert_line
from bullpen.schema.agent import CatalogueProvider
from bullpen.schema.api import ProviderKey
from bullpen.tui.dialogs.dialog import Dialog
from bullpen.tui.dialogs.form import Field, Form

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

T = TypeVar("T")

EVERYWHERE = 0
"""The scope of what holds in every workspace of this person."""


async def enter_key(over: Dialog[T], room: Room, offer: CatalogueProvider) -> bool:
    """Ask for a key and keep it; whether that was done. Raises what the server says against it."""
    name = inert_line(offer.name)
    text = f"It goes to the server of this workspace, into the owner's private state, and to {name}."
    given = await over.also(
        Form(
            f"Key of {name}",
            [Field("key", "key", is_needed=True, is_secret=True)],
            text=text,
            done="keep it",
        )
    )
    if given is None:
        return False
    body = ProviderKey(scope=EVERYWHERE, provider_id=offer.id, kind="string", api_key=given["key"].strip())
    await room.call("POST", "/config/provider-key", body)
    return True
