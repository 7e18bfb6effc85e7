"""Any long text, whole: scrolled, searched, copied."""

from __future__ import annotations

import re
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, TextArea

from bullpen.present.inert import inert
from bullpen.tui.dialogs.dialog import Dialog


class Viewer(Dialog[bool]):
    """Shows it; dismissed with nothing."""

    DEFAULT_CSS = """
    Viewer #box { width: 96%; height: 94%; }
    Viewer TextArea { height: 1fr; border: none; background: $surface; padding: 0; }
    Viewer TextArea:focus { border: none; }
    Viewer #find { display: none; background: $panel; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+f,slash", "find", "find", priority=True),
        Binding("f3,n", "again", "find the next one"),
        Binding("c", "copy", "copy what is selected, or all of it"),
    ]
    place = "Long texts"

    def __init__(
        self, heading: str, text: str, *, hint: str = "↑↓ look  / find  n next  c copy  esc close"
    ) -> None:
        super().__init__(heading, hint)
        self._text = inert(text)

    def body(self) -> ComposeResult:
        yield TextArea(self._text, read_only=True, show_line_numbers=False, soft_wrap=True)
        yield Input(placeholder="find", id="find", compact=True)

    @property
    def area(self) -> TextArea:
        return self.query_one(TextArea)

    def on_mount(self) -> None:
        self.area.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While somebody writes what to find, letters are letters."""
        return not (self.query_one("#find", Input).has_focus and action in ("find", "again", "copy"))

    def action_find(self) -> None:
        field = self.query_one("#find", Input)
        field.display = True
        field.focus()

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        self.area.focus()
        self.action_again()

    def action_again(self) -> None:
        wanted = self.query_one("#find", Input).value.lower()
        if not wanted:
            return
        found = self._places(wanted)
        if not found:
            self.hint("it does not stand here", is_wrong=True)
            return
        here = self.area.cursor_location
        row, column = next((place for place in found if place > here), found[0])
        self.area.move_cursor((row, column))
        self.area.move_cursor((row, column + len(wanted)), select=True, center=True)
        self.usual_hint()

    def _places(self, wanted: str) -> list[tuple[int, int]]:
        """Where it stands, by row and column."""
        return [
            (row, found.start())
            for row, line in enumerate(self.area.text.lower().split("\n"))
            for found in re.finditer(re.escape(wanted), line)
        ]

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.area.selected_text or self.area.text)
        self.hint("copied")

    def action_close(self) -> None:
        field = self.query_one("#find", Input)
        if field.display:
            field.display = False
            self.area.focus()
        else:
            self.decide()
