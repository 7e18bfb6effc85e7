"""Changes of files within a dialog, drawn as the conversation draws them, and whole: what is agreed to has to be seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from bullpen.present.undoing import file_line
from bullpen.schema.changes import FileUndo
from bullpen.tui.transcript import diffs
from bullpen.tui.transcript.flow import strips
from bullpen.tui.transcript.palette import Palette, palette


class Change(NamedTuple):
    """How a file is to be changed: a unified diff, and a row to stand over it."""

    path: str
    diff: str
    head: str = ""


class Diff(Widget):
    """As high as its rows."""

    DEFAULT_CSS = "Diff { height: auto; background: $surface; }"

    def __init__(self, changes: Sequence[Change] = ()) -> None:
        super().__init__()
        self._changes = changes
        self._is_split = False
        self._drawn: tuple[object, list[Strip]] = (None, [])

    def show(self, changes: Sequence[Change], *, split: bool = False) -> None:
        self._changes = changes
        self._is_split = split
        self._drawn = (None, [])
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows(width))

    def render_line(self, y: int) -> Strip:
        rows = self._rows(self.size.width)
        return rows[y] if y < len(rows) else Strip.blank(self.size.width, self.rich_style)

    def _rows(self, width: int) -> list[Strip]:
        """Made once for a width and a theme."""
        made_for = (width, self.app.theme)
        if self._drawn[0] != made_for:
            colours = palette(self.rich_style, self.app.theme_variables)
            self._drawn = (
                made_for,
                [row for change in self._changes for row in self._of(change, width, colours)],
            )
        return self._drawn[1]

    def _of(self, change: Change, width: int, colours: Palette) -> Iterable[Strip]:
        if change.head:
            yield from strips([(change.head, colours.strong)], width, colours.text)
        if change.diff:
            yield from diffs.drawn(
                change.diff, change.path, width, colours, split=self._is_split, whole=True
            ).strips


def undoing(files: Iterable[FileUndo], hunk: str = "") -> list[Change]:
    """What an undo does to files, or one place of it."""
    found = []
    for file in files:
        texts = [each.text.rstrip("\n") for each in file.hunks if not hunk or each.id == hunk]
        if texts or not hunk:
            found.append(Change(file.path, "\n".join(texts), file_line(file)))
    return found
