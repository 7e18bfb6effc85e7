"""Rows to choose from, under headings. One row is chosen or none; it is always in sight after the keys moved it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from bullpen.present.inert import cut, inert_line
from bullpen.tui.dialogs.fuzzy import find

WIDEST_RIGHT = 0.45
"""The right column goes when it would take more of a row than this."""

LEAST_LABEL = 16
"""A label keeps at least so many columns beside it."""


@dataclass(frozen=True, slots=True)
class Option:
    """Something to choose. `key` tells it from the others, and from what stood there before. `mark` is one sign in front; `also`
    is found by typing without being shown; one that is `off` can be looked at and not be taken."""

    key: str
    label: str
    right: str = ""
    group: str = ""
    mark: str = " "
    also: str = ""
    off: bool = False
    places: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Heading:
    text: str


@dataclass(frozen=True, slots=True)
class _Note:
    text: str
    is_error: bool = False


class Rows(ScrollView, can_focus=False):
    """Draws them and knows which is chosen. What a choice means is the owner's business."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "rows--chosen",
        "rows--faint",
        "rows--found",
        "rows--heading",
        "rows--mark",
        "rows--wrong",
    }
    DEFAULT_CSS = """
    Rows { height: 1fr; scrollbar-size-vertical: 1; background: $surface; }
    Rows.-answers { height: auto; max-height: 12; margin-top: 1; }
    Rows > .rows--chosen { background: $primary 25%; text-style: bold; }
    Rows > .rows--faint { color: $faint; }
    Rows > .rows--found { color: $accent; text-style: bold underline; }
    Rows > .rows--heading { color: $secondary; text-style: bold; }
    Rows > .rows--mark { color: $accent; text-style: bold; }
    Rows > .rows--wrong { color: $error; }
    """

    @dataclass
    class Clicked(Message):
        """A row was clicked, so many times in a row."""

        option: Option
        times: int

    @dataclass
    class Chosen(Message):
        """Another row is chosen, or none."""

        option: Option | None

    def __init__(self, *, heading_gap: bool = True) -> None:
        super().__init__()
        self._options: Sequence[Option] = ()
        self._lines: list[Option | _Heading | _Note | None] = []
        self._at = -1
        self._right = 0
        self._heading_gap = heading_gap

    @property
    def chosen(self) -> Option | None:
        line = self._lines[self._at] if 0 <= self._at < len(self._lines) else None
        return line if isinstance(line, Option) else None

    @property
    def options(self) -> list[Option]:
        """What is shown, from top to bottom."""
        return [line for line in self._lines if isinstance(line, Option)]

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Show one sentence in place of rows."""
        self._options = ()
        self._lines = [_Note(text, is_error)]
        self._at = -1
        self._changed()

    def show(self, options: Sequence[Option], *, chosen: str | None = "", query: str = "") -> None:
        """Show these, those alone that fit the query; the best come first then. `chosen` is the key to choose; where it is not
        there the first one is, and with None nothing."""
        self._options = options
        shown = _fitting(options, query) if query.strip() else list(options)
        self._lines = []
        group = ""
        for option in shown:
            if option.group != group:
                group = option.group
                if self._lines and self._heading_gap:
                    self._lines.append(None)
                self._lines.append(_Heading(group))
            self._lines.append(option)
        self._right = max((Text(inert_line(option.right)).cell_len for option in shown), default=0)
        self._at = -1 if chosen is None else self._place(chosen)
        self._changed()

    def _place(self, key: str) -> int:
        rows = [at for at, line in enumerate(self._lines) if isinstance(line, Option)]
        same = [at for at in rows if getattr(self._lines[at], "key", "") == key]
        return next(iter([*same, *rows]), -1)

    def step(self, by: int, *, wrap: bool = True) -> None:
        """Choose a row further down or up, round and round, or only as far as there are rows."""
        rows = [at for at, line in enumerate(self._lines) if isinstance(line, Option)]
        if not rows:
            return
        if self._at in rows:
            place = rows.index(self._at) + by
            place = place % len(rows) if wrap else min(max(place, 0), len(rows) - 1)
        else:
            place = 0 if by > 0 else len(rows) - 1
        self.choose(rows[place])

    def page(self, by: int) -> None:
        self.step(by * max(self.size.height - 2, 1), wrap=False)

    def choose(self, line: int) -> None:
        self._at = line
        self._reveal()
        self.refresh()
        self.post_message(self.Chosen(self.chosen))

    def _changed(self) -> None:
        self.virtual_size = Size(self.size.width, len(self._lines))
        self.refresh(layout=True)
        self._reveal()
        # More rows than before may make it higher: only then is it known what can be seen.
        self.call_after_refresh(self._reveal)
        self.post_message(self.Chosen(self.chosen))

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, len(self._lines))
        self._reveal()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines)

    def _reveal(self) -> None:
        """Bring the chosen row into sight, and its heading with it where that stands right above."""
        if self._at < 0:
            return
        above = self._at > 0 and isinstance(self._lines[self._at - 1], _Heading)
        region = Region(0, self._at - above, 1, 1 + above)
        self.scroll_to_region(region, animate=False, force=True, immediate=True, x_axis=False)

    def on_click(self, event: Click) -> None:
        place = event.get_content_offset(self)
        line = (place.y + self.scroll_offset.y) if place else -1
        if 0 <= line < len(self._lines) and isinstance(option := self._lines[line], Option):
            self.choose(line)
            self.post_message(self.Clicked(option, event.chain))

    def render_line(self, y: int) -> Strip:
        at = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        line = self._lines[at] if at < len(self._lines) else None
        if line is None:
            return Strip.blank(width, self.rich_style)
        strip = Strip(self._text(line, width).render(self.app.console)).adjust_cell_length(width)
        is_chosen = at == self._at
        return strip.apply_style(
            self.get_component_rich_style("rows--chosen") if is_chosen else self.rich_style
        )

    def _style(self, name: str) -> Style:
        """The letters alone: what lies behind them is the row's."""
        return self.get_component_rich_style(name, partial=True)

    def _text(self, line: Option | _Heading | _Note, width: int) -> Text:
        match line:
            case _Heading(text):
                return Text(cut(inert_line(text), width), self._style("rows--heading"))
            case _Note(text, is_error):
                named = "rows--wrong" if is_error else "rows--faint"
                return Text(cut(f"  {inert_line(text)}", width), self._style(named))
            case Option() as option:
                return self._drawn(option, width)

    def _drawn(self, option: Option, width: int) -> Text:
        faint = self._style("rows--faint")
        has_right = self._right and self._right <= width * WIDEST_RIGHT
        room = width - 4 - (self._right + 2 if has_right else 0)
        room = max(room, LEAST_LABEL)
        plain = inert_line(option.label)
        label = Text(cut(plain, room), faint if option.off else "")
        if plain == option.label:
            for place in option.places:
                if place < len(label.plain):
                    label.stylize(self._style("rows--found"), place, place + 1)
        label.pad_right(max(room - label.cell_len, 0))
        mark = cut(inert_line(option.mark) or " ", 1)
        pointer = "▸" if option is self.chosen else " "
        text = Text.assemble(pointer, (mark, self._style("rows--mark")), " ", label)
        if has_right:
            right = inert_line(option.right)
            text.append("  ").append(right.rjust(self._right - Text(right).cell_len + len(right)), faint)
        return text


def _fitting(options: Sequence[Option], query: str) -> list[Option]:
    """Those that fit, the best first, without their groups: a list by groups would not be one by fitness."""
    found = [(find(query, option.label, f"{option.also} {option.group}"), option) for option in options]
    fitting = [(fit, option) for fit, option in found if fit is not None]
    fitting.sort(key=lambda pair: -pair[0].score)
    return [replace(option, places=fit.places, group="") for fit, option in fitting]
