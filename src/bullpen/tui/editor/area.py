"""The text itself: Textual's text area, with a paste of our own and the terminal's cursor where the caret is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from textual.events import Key, Paste
from textual.geometry import Offset, Size
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from bullpen.tui.editor.attachments import normalised

SMALLEST = 3
"""Rows that are always there."""


class Owner(Protocol):
    """The editor, as far as its text needs it."""

    def catch_up(self) -> None:
        """The text may be another one: a key is about to be carried out."""

    def begin_shell(self) -> bool:
        """An exclamation mark was typed at the beginning; whether that is all it meant."""


class Area(TextArea):
    """Keys that mean more than text are the editor's; it sees them first.

    They are carried out here, in the order in which they came. A binding would be found only after the key has travelled up to the
    application, and letters that were typed behind it would come before it.
    """

    @dataclass
    class Pasted(Message):
        """Text came from a clipboard, in one piece."""

        text: str

    def __init__(self, owner: Owner) -> None:
        super().__init__(soft_wrap=True, compact=True, highlight_cursor_line=False)
        self.match_cursor_bracket = False
        self._owner = owner

    async def _on_key(self, event: Key) -> None:
        if event.is_printable and not event.key.startswith(("alt+", "ctrl+", "super+")):
            is_done = event.character == "!" and self.cursor_at_start_of_text and self._owner.begin_shell()
        else:
            is_done = await self._carry_out(event.key)
            # Alt and a letter is not that letter, also where it means nothing here.
            if event.is_printable:
                event.prevent_default()
        if is_done:
            event.stop()
            event.prevent_default()

    async def _carry_out(self, key: str) -> bool:
        self._owner.catch_up()
        for node, found in reversed(self.screen._binding_chain[:-2]):
            if node in (self, self._owner):
                for binding in found.key_to_bindings.get(key, ()):
                    if await self.app.run_action(binding.action, node):
                        return True
        return False

    async def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        self.post_message(self.Pasted(normalised(event.text)))

    @property
    def is_on_first_row(self) -> bool:
        """Whether the caret is in the first row as it is drawn; a long line has several."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y == 0

    def continue_line(self) -> bool:
        """Make a new line of a backslash right before the caret at the end of a line; whether there was one."""
        row, column = self.cursor_location
        if not self.cursor_at_end_of_line or not self.document[row].endswith("\\"):
            return False
        self.selection = Selection((row, column - 1), (row, column))
        self.put("\n")
        return True

    def put(self, text: str) -> None:
        """Insert at the caret, in place of what is selected, so that it can be undone."""
        result = self.replace(text, *self.selection, maintain_selection_offset=False)
        self.move_cursor(result.end_location)

    def swap(self, text: str) -> None:
        """Replace all of it, so that it can be undone, with the caret at the end."""
        result = self.replace(text, self.document.start, self.document.end, maintain_selection_offset=False)
        self.move_cursor(result.end_location)

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        # An undo takes the text away before it puts the caret back, and a scroll bar that goes with it looks for the caret.
        if self.cursor_location[0] >= self.document.line_count:
            return Offset()
        return super().scroll_cursor_visible(center, animate)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As high as its text, but no more than half of the screen."""
        height = super().get_content_height(container, viewport, width)
        return min(height, max(viewport.height // 2 - 2, SMALLEST))

    def _size_updated(
        self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True
    ) -> bool:
        # Where it is drawn may have moved, and an input method opens its window where the terminal's cursor is.
        updated = super()._size_updated(size, virtual_size, container_size, layout)
        self.call_after_refresh(self.place_cursor)
        return updated

    def place_cursor(self) -> None:
        """Tell the terminal where the caret is; that goes out with the next frame."""
        if self.has_focus and self.app.cursor_position != self.cursor_screen_offset:
            self.app.cursor_position = self.cursor_screen_offset
            self.refresh()
