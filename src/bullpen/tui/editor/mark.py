"""The sign left of the text."""

from __future__ import annotations

from rich.text import Text
from textual.app import RenderResult
from textual.reactive import reactive
from textual.widget import Widget


class Mark(Widget):
    """Left of the text: what it is going to be."""

    DEFAULT_CSS = "Mark { width: 2; height: 1; }"

    shell: reactive[bool] = reactive(False)
    free: reactive[bool] = reactive(False)

    def render(self) -> RenderResult:
        colours = self.app.theme_variables
        if self.shell:
            return Text("!", f"bold {colours['accent']}")
        return Text("»" if self.free else ">", f"bold {colours['warning' if self.free else 'primary']}")
