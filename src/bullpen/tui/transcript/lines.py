"""The lines of a conversation: a widget that draws what can be seen of it, stays where one reads, or follows the end.

following ──scrolled up──▶ reading ──scrolled to the end, ctrl+end──▶ following
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from rich.segment import Segment
from textual import events
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from bullpen.tui.preferences import Preferences
from bullpen.tui.transcript.column import Place
from bullpen.tui.transcript.drawing import draw, estimate, is_live
from bullpen.tui.transcript.flow import blank, marked
from bullpen.tui.transcript.items import Change, Item
from bullpen.tui.transcript.palette import palette
from bullpen.tui.transcript.scene import Scene
from bullpen.tui.transcript.welcome import welcome
from bullpen.tui.transcript.window import Window

TURNING_S = 0.1
CLOCK_S = 1.0
"""How often things that turn do so; without motion only clocks go on."""

ROW_BITS = 20
"""A selection is kept by item and row, so that it stays where it is when something above it grows."""

NOWHERE = Place(-1, 0)


class Lines(ScrollView, can_focus=True, inherit_bindings=False):
    """Told which items there are, it shows those that are in its window."""

    DEFAULT_CSS = """
    Lines { height: 1fr; overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }
    """

    @dataclass
    class Moved(Message):
        """Where the window stands has changed: `behind` rows have come below it since it left the end."""

        behind: int

    @dataclass
    class Chosen(Message):
        """Somebody clicked on a row of an item."""

        item: Item
        row: int
        rows: int
        clicks: int

    def __init__(self, scene: Scene, preferences: Preferences) -> None:
        super().__init__()
        self.scene = scene
        self.window = Window(lambda item: draw(item, scene), lambda item: estimate(item, scene.width))
        self.is_following = True
        self.cursor = ""
        """The key of the item that keys are about."""
        self.sought = ""
        """What is looked for, in small letters."""
        self.found = NOWHERE
        """The row of an item at which it was found last."""
        self._is_still = preferences.motion == "reduced"
        self._anchor = Place(0, 0)
        self._left = Place(0, 0)
        """The item that was the last one when the end was left, and its height then; 0 when that is not known any more."""
        self._told_behind = 0
        self._is_laying_out = False
        self._shown: list[tuple[Strip, Place]] = []
        self._welcome: list[Strip] = []
        self._ticker: Timer | None = None

    # What there is

    def on_mount(self) -> None:
        self._ticker = self.set_interval(CLOCK_S if self._is_still else TURNING_S, self._tick, pause=True)
        self.repaint()
        self.app.theme_changed_signal.subscribe(self, self.repaint)

    def load(self, items: list[Item]) -> None:
        """Show these items, of a list that is shared with whoever changes it."""
        self.window.load(items)
        self.lay_out()

    def take(self, change: Change) -> None:
        """Some items were replaced in the list; `lay_out` shows it."""
        self.window.change(change)

    def repaint(self, *_: object) -> None:
        """Draw everything anew: another width, other colours."""
        self.scene.width = max(self.scrollable_content_region.width, 20)
        self.scene.palette = palette(self.rich_style, self.app.theme_variables)
        self.scene.texts.clear()
        self._anchor = self.window.redraw(self._anchor)
        self._left = Place(self._left.item, 0)
        self.lay_out()
        self.refresh()

    def on_resize(self) -> None:
        if self.scene.width != max(self.scrollable_content_region.width, 20):
            self.repaint()
        else:
            self.lay_out()

    # Where one is

    @property
    def _height(self) -> int:
        return self.scrollable_content_region.height

    @property
    def behind(self) -> int:
        """How many rows have come since one left the end."""
        column = self.window.column
        if self.is_following or self._left.item >= len(column):
            return 0
        last, height = self._left
        grown = column[last] - height if height else 0
        return max(column.total - column.top(last + 1) + grown, 0)

    def _leave_end(self) -> None:
        """From here on what comes is counted, behind the item that is the last one now."""
        self.is_following = False
        last = max(len(self.window.items) - 1, 0)
        self._left = Place(last, self.window.column[last] if self.window.items else 0)

    def lay_out(self) -> None:
        """Draw what the window shows, and have it stay where it is, or at the end."""
        if self._is_laying_out or not self._height:
            return
        if not self.window.items:
            self._welcome = welcome(self.scene.width, self._height, self.scene.palette)
        self._is_laying_out = True
        try:
            if self.is_following:
                y = self.window.settle_end(self._height)
                self._anchor = self.window.column.at(y)
            else:
                self._anchor = self.window.settle(self._anchor, self._height)
                y = self.window.column.y(self._anchor)
            self._stretch()
            y = min(y, max(self.window.column.total - self._height, 0))
            self.scroll_target_y = self.scroll_y = y
        finally:
            self._is_laying_out = False
        self._paint()
        if self.behind != self._told_behind:
            self._told_behind = self.behind
            self.post_message(self.Moved(self.behind))

    def _stretch(self) -> None:
        """Tell how much there is. Nothing else depends on it, so no other widget has to be laid out anew."""
        size = Size(self.scene.width, self.window.column.total)
        if size != self.virtual_size:
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = new_value
        if self._is_laying_out or round(old_value) == round(new_value):
            return
        self._anchor = self.window.column.at(round(new_value))
        if new_value >= self.max_scroll_y:
            self.is_following = True
        elif self.is_following:
            self._leave_end()
        self.lay_out()

    def follow(self) -> None:
        """Go to the end and stay there."""
        self.is_following = True
        self.lay_out()

    def go_to(self, index: int, row: int = 0, *, above: int = 0) -> None:
        """Have a row of an item in the window, with some rows above it."""
        if self.is_following:
            self._leave_end()
        self._anchor = self.window.settle(Place(index, row), self._height)
        y = max(self.window.column.y(self._anchor) - above, 0)
        self._anchor = self.window.settle(self.window.column.at(y), self._height)
        self.lay_out()
        if self.scroll_y >= self.max_scroll_y:
            self.follow()

    def bring(self, index: int) -> None:
        """Have an item in the window, by as little movement as can be."""
        self.window.strips(index)
        top = self.window.column.top(index)
        height = self.window.column[index]
        if top < self.scroll_offset.y or height >= self._height:
            self.go_to(index)
        elif top + height > self.scroll_offset.y + self._height:
            self.go_to(index, above=self._height - height)

    def in_window(self) -> Iterator[int]:
        """The items in the window, from the top."""
        if not self.window.items:
            return
        column = self.window.column
        first = column.at(self.scroll_offset.y).item
        last = column.at(self.scroll_offset.y + self._height - 1).item
        yield from range(first, min(last + 1, len(self.window.items)))

    # What moves by itself

    def _tick(self) -> None:
        self.scene.now = time.time()
        self.scene.frame = None if self._is_still else (self.scene.frame or 0) + 1
        for index in self.in_window():
            item = self.window.items[index]
            if is_live(item, self.scene):
                self.window.stale(item.key)
        self.lay_out()

    def _keep_ticking(self) -> None:
        """Only for as long as something in the window moves by itself."""
        if self._ticker is None:
            return
        if any(is_live(self.window.items[index], self.scene) for index in self.in_window()):
            self._ticker.resume()
        else:
            self._ticker.pause()

    # Painting

    def _paint(self) -> None:
        """Have those rows painted that look otherwise than before."""
        shown = list(self._rows())
        before = self._shown
        moved = [y for y, (strip, _) in enumerate(shown) if y >= len(before) or strip is not before[y][0]]
        self._shown = shown
        if moved:
            self.refresh(Region(0, moved[0], self.size.width, moved[-1] - moved[0] + 1))
        self._keep_ticking()

    @property
    def _nothing(self) -> Strip:
        return blank(self.scene.width, self.scene.palette.text)

    def _rows(self) -> Iterator[tuple[Strip, Place]]:
        """The strips in the window from the top, and what each belongs to."""
        left = self._height
        if not self.window.items:
            yield from ((strip, NOWHERE) for strip in self._welcome)
            left -= len(self._welcome)
        else:
            index, row = self.window.column.at(self.scroll_offset.y)
            while left > 0 and index < len(self.window.items):
                rows = self.window.strips(index)[row : row + left]
                yield from ((strip, Place(index, row + n)) for n, strip in enumerate(rows))
                left -= len(rows)
                index, row = index + 1, 0
        yield from ((self._nothing, NOWHERE) for _ in range(left))

    def _at(self, y: int) -> tuple[Strip, Place]:
        """What is shown in a row of the window."""
        return self._shown[y] if 0 <= y < len(self._shown) else (self._nothing, NOWHERE)

    def render_line(self, y: int) -> Strip:
        strip, place = self._at(y)
        if place == NOWHERE:
            return strip
        strip = self._with_matches(strip, place)
        line = place.item << ROW_BITS | place.row
        if (selection := self.text_selection) and (span := selection.get_span(line)):
            start, end = span
            end = len(strip.text.rstrip()) if end == -1 else end
            style = self.screen.get_component_rich_style("screen--selection")
            strip = marked(strip, [(start, end)], style)
        is_chosen = self.has_focus and self.window.items[place.item].key == self.cursor
        if is_chosen and place.row < self.window.column[place.item] - 1:
            strip = Strip.join([Strip([Segment("▌", self.scene.palette.accent)], 1), strip.crop(1)])
        return strip.apply_offsets(0, line)

    def _with_matches(self, strip: Strip, place: Place) -> Strip:
        if not self.sought:
            return strip
        text = strip.text.lower()
        spans = []
        at = text.find(self.sought)
        while at >= 0:
            spans.append((at, at + len(self.sought)))
            at = text.find(self.sought, at + len(self.sought))
        style = self.scene.palette.found if place == self.found else self.scene.palette.match
        return marked(strip, spans, style) if spans else strip

    def watch_has_focus(self, _has_focus: bool) -> None:
        super().watch_has_focus(_has_focus)
        self.refresh()

    # Selecting and clicking

    @property
    def allow_select(self) -> bool:
        return True

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        rows: list[str] = []
        first = selection.start.y >> ROW_BITS if selection.start else 0
        last = selection.end.y >> ROW_BITS if selection.end else len(self.window.items) - 1
        for index in range(first, min(last + 1, len(self.window.items))):
            for row, strip in enumerate(self.window.strips(index)):
                if (span := selection.get_span(index << ROW_BITS | row)) is not None:
                    start, end = span
                    text = strip.text.rstrip()
                    rows.append(text[max(start, 2 if end == -1 else 0) : None if end == -1 else end])
        return "\n".join(rows).strip("\n"), "\n"

    def on_click(self, event: events.Click) -> None:
        strip, place = self._at(event.y)
        if place == NOWHERE:
            return
        if event.chain > 1:
            # Textual would select the whole conversation.
            event.prevent_default()
            start, end = _word(strip, event.x) if event.chain == 2 else (2, len(strip.text.rstrip()))
            line = place.item << ROW_BITS | place.row
            self.screen.selections = {self: Selection(Offset(start, line), Offset(end, line))}
        item = self.window.items[place.item]
        self.post_message(self.Chosen(item, place.row, self.window.column[place.item], event.chain))


def _word(strip: Strip, x: int) -> tuple[int, int]:
    """From where to where the word in a column reaches."""
    at = len(strip.crop(0, x).text)
    return next(
        (found.span() for found in re.finditer(r"\S+", strip.text) if found.start() <= at < found.end()),
        (at, at),
    )
