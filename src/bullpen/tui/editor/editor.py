"""The prompt as a widget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.events import Key
from textual.message import Message
from textual.widget import Widget
from textual.widgets import TextArea

from bullpen.schema.api import Attachment
from bullpen.tui.preferences import Preferences

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


class Area(TextArea):
    """The text itself."""

    async def _on_key(self, event: Key) -> None:
        if event.key == "enter":
            event.prevent_default().stop()
            if self.text.strip():
                self.post_message(Editor.Submitted(self.text))
                self.clear()
            return
        await super()._on_key(event)


class Editor(Widget):
    """Where a person writes. What is sent comes out as `Submitted`; what could not be sent is given back."""

    DEFAULT_CSS = """
    Editor { height: auto; min-height: 3; max-height: 15; }
    Editor TextArea { height: auto; min-height: 3; max-height: 12; border: none; }
    """

    @dataclass
    class Submitted(Message):
        """A prompt is to be sent."""

        text: str
        attachments: tuple[Attachment, ...] = ()

    def __init__(self, preferences: Preferences) -> None:
        super().__init__()
        self.preferences = preferences
        self._room: Room | None = None

    def compose(self) -> ComposeResult:
        yield Area()

    @property
    def has_focus_within(self) -> bool:
        return self.query_one(TextArea).has_focus

    def focus(self, scroll_visible: bool = True) -> Editor:
        self.query_one(TextArea).focus(scroll_visible)
        return self

    def attach(self, room: Room) -> None:
        """From now on prompts can be sent."""
        self._room = room

    def enter(self, session_id: str) -> None:
        """The person went to another session: its draft is what stands here."""

    def give_back(self, submitted: Submitted) -> None:
        """It was not accepted: what was written must not be lost."""
        self.query_one(TextArea).text = submitted.text
