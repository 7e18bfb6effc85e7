"""Dialogs whose answers each have a key: pressed, clicked, or chosen with the arrows and enter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Key
from textual.widgets import Static

from bullpen.present.inert import inert
from bullpen.tui.dialogs.dialog import Dialog
from bullpen.tui.dialogs.diff import Change, Diff
from bullpen.tui.dialogs.rows import Option, Rows

T = TypeVar("T")


def answer(key: str, label: str, *, off: bool = False) -> Option:
    """An answer with its key in front."""
    return Option(key, label, mark=key, off=off)


class Shown(VerticalScroll, can_focus=False):
    """What is asked about: as high as it is, and looked through where there is no room for that."""

    DEFAULT_CSS = "Shown { height: auto; max-height: 12; min-height: 1; scrollbar-size-vertical: 1; }"


class Keyed(Dialog[T]):
    """Heirs say which answers there are, and what each means (`answered`). What is long stands in a `Shown`."""

    DEFAULT_CSS = """
    Keyed.-tall Shown { max-height: 22; }
    Keyed.-taller Shown { max-height: 40; }
    """
    # A share of the screen would leave the box as high as if nothing were cut off.
    # Textual declares it for instances, so it cannot be a `ClassVar`.
    VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-tall"), (56, "-taller")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup,shift+up", "look(-1)", "look further up"),
        Binding("pagedown,shift+down", "look(1)", "look further down"),
    ]
    place = "Answers"
    preselected: str | None = None
    """Nothing is chosen at first: enter alone then answers nothing."""

    def answers(self) -> Sequence[Option]:
        return ()

    def answered(self, key: str) -> None:
        """Somebody gave the answer of that key."""

    @property
    def rows(self) -> Rows:
        return self.query_one(Rows)

    def on_mount(self) -> None:
        # By a class of theirs: a dialog with two parents has the style sheets of the first alone.
        self.rows.add_class("-answers")
        self.rows.show(self.answers(), chosen=self.preselected)

    def action_look(self, pages: int) -> None:
        for shown in self.query(Shown):
            shown.scroll_relative(y=pages * max(shown.size.height - 1, 1), animate=False)

    def takes(self, event: Key) -> bool:
        """Whether a key is to be tried as an answer; it may have done something else here."""
        return True

    def on_key(self, event: Key) -> None:
        if not self.takes(event):
            return
        match event.key:
            case "up" | "shift+tab":
                self.rows.step(-1)
            case "down" | "tab":
                self.rows.step(1)
            case "enter":
                self._enter()
            case _:
                self._press(event)
                return
        event.stop()

    def _enter(self) -> None:
        if self.rows.chosen is None:
            self.hint("choose with the arrows first, or press the letter of an answer")
        elif not self.rows.chosen.off:
            self.answered(self.rows.chosen.key)

    def _press(self, event: Key) -> None:
        known = {option.key: option for option in self.rows.options}
        if event.character in known and not known[event.character].off:
            event.stop()
            self.answered(event.character)

    def on_rows_clicked(self, clicked: Rows.Clicked) -> None:
        if not clicked.option.off:
            self.answered(clicked.option.key)


class Confirm(Keyed[bool]):
    """Yes or no to something that cannot be passed over, with the changes that it would make."""

    DEFAULT_CSS = """
    Confirm #box { width: 64; }
    Confirm.-changes #box { width: 100; }
    Confirm #text { height: auto; }
    """

    def __init__(
        self,
        heading: str,
        text: str,
        *,
        yes: str,
        no: str = "no, leave it",
        changes: Sequence[Change] = (),
    ) -> None:
        super().__init__(heading, f"y yes  n no  esc no{'  page up/down look' if changes else ''}")
        self._text = text
        self._yes = yes
        self._no = no
        self._changes = changes
        self.set_class(bool(changes), "-changes")

    def body(self) -> ComposeResult:
        with Shown():
            if self._text:
                yield Static(Text(inert(self._text)), id="text")
            yield Diff(self._changes)
        yield Rows()

    def answers(self) -> Sequence[Option]:
        return (answer("y", self._yes), answer("n", self._no))

    def answered(self, key: str) -> None:
        self.decide(key == "y")
