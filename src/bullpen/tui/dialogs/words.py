"""A field for several lines of one's own words."""

from __future__ import annotations

from dataclasses import dataclass

from textual.events import Key
from textual.message import Message
from textual.widgets import TextArea


class Words(TextArea):
    """Enter is the end; shift+enter, alt+enter or ctrl+j begin a new line."""

    DEFAULT_CSS = """
    Words { height: auto; min-height: 3; max-height: 8; border: none; background: $panel; padding: 0 1; }
    Words:focus { border: none; }
    """

    @dataclass
    class Done(Message):
        """What was written."""

        text: str

    async def _on_key(self, event: Key) -> None:
        if event.key == "enter":
            event.prevent_default().stop()
            self.post_message(self.Done(self.text))
        elif event.key in ("shift+enter", "alt+enter", "ctrl+j"):
            event.prevent_default().stop()
            self.insert("\n")
        else:
            await super()._on_key(event)
