"""A provider's key: typed unseen, asked about, kept by the server, in force at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Static

from bullpen.present.inert import inert_line
from bullpen.present.keys import kept_line
from bullpen.schema.agent import CatalogueProvider
from bullpen.tui.dialogs.dialog import Dialog
from bullpen.tui.dialogs.form import Field, Form
from bullpen.tui.dialogs.keyed import Keyed, answer
from bullpen.tui.dialogs.rows import Option, Rows

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

T = TypeVar("T")

AGAIN, ANYWAY = "t", "k"


class Refused(Keyed[str]):
    """The provider does not take the key. Dismissed with `AGAIN` or `ANYWAY`."""

    DEFAULT_CSS = """
    Refused #box { width: 72; }
    Refused #text { height: auto; margin-bottom: 1; }
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"Key of {name}", "press a key, or choose and enter  esc keep nothing")
        self._message = message

    def body(self) -> ComposeResult:
        yield Static(Text(f"{inert_line(self._message)}. Nothing is kept yet."), id="text")
        yield Rows()

    def answers(self) -> Sequence[Option]:
        return (answer(AGAIN, "type it again"), answer(ANYWAY, "keep it anyway"))

    def answered(self, key: str) -> None:
        self.decide(key)


async def enter_key(over: Dialog[T], room: Room, offer: CatalogueProvider) -> str:
    """Ask for a key, ask the provider about it and keep it; what came of it, in words, or nothing when nobody gave one.
    Raises what the server says against it."""
    name = inert_line(offer.name)
    text = f"It goes to the server of this workspace, into the owner's private state, and to {name}."
    field = Field("key", "key", is_needed=True, is_secret=True)
    while given := await over.also(Form(f"Key of {name}", [field], text=text, done="check and keep it")):
        key = given["key"].strip()
        over.hint(f"checking the key with {name} …")
        checked = await room.keys.check(offer.id, key)
        over.usual_hint()
        if checked.verdict == "refused":
            wanted = await over.also(Refused(name, checked.message))
            if wanted == AGAIN:
                continue
            if wanted != ANYWAY:
                break
        await room.keys.keep(offer.id, key)
        return kept_line(offer.name, checked)
    return ""
