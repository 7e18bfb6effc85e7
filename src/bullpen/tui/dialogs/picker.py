"""The list that all lists are: filtered by typing, round and round, with the mouse as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input
from textual.worker import Worker

from bullpen.errors import BullpenError
from bullpen.present.failure import one_line
from bullpen.tui.dialogs.dialog import Dialog
from bullpen.tui.dialogs.rows import Option, Rows


class Picker(Dialog[str]):
    """Dismissed with the key of what was picked. Heirs say what there is (`options`), and may do something else with it (`pick`)."""

    DEFAULT_CSS = """
    Picker #box { height: 90%; max-height: 30; }
    Picker #filter { margin-bottom: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,ctrl+k", "step(-1)", "up", priority=True, show=False),
        Binding("down,ctrl+j", "step(1)", "down", priority=True, show=False),
        Binding("pageup", "page(-1)", "a page up", priority=True, show=False),
        Binding("pagedown", "page(1)", "a page down", priority=True, show=False),
        Binding("ctrl+home", "edge(-1)", "first", priority=True, show=False),
        Binding("ctrl+end", "edge(1)", "last", priority=True, show=False),
    ]
    place = "Lists"

    def __init__(
        self,
        heading: str,
        *,
        hint: str = "↑↓ choose  enter take it  esc close",
        empty: str = "there is nothing here",
        prompt: str = "type to filter",
        chosen: str = "",
    ) -> None:
        super().__init__(heading, hint)
        self._empty = empty
        self._prompt = prompt
        self._wanted = chosen
        self._known: Sequence[Option] | None = None

    def body(self) -> ComposeResult:
        yield Input(placeholder=self._prompt, id="filter", compact=True)
        yield Rows()

    # What there is

    async def options(self) -> Sequence[Option]:
        """What can be picked, asked for again on `reload`. May raise what the server says against it."""
        return ()

    def at_once(self) -> Sequence[Option]:
        """What can be shown before anybody was asked."""
        return ()

    async def pick(self, option: Option) -> None:
        """It was picked. May raise what the server says against it."""
        self.decide(option.key)

    @property
    def rows(self) -> Rows:
        return self.query_one(Rows)

    @property
    def filter(self) -> Input:
        return self.query_one("#filter", Input)

    @property
    def chosen(self) -> Option | None:
        return self.rows.chosen

    def on_mount(self) -> None:
        self.filter.focus()
        self.rows.say("loading …")
        if known := self.at_once():
            self._known = known
            self.look()
        self.reload()

    def reload(self) -> None:
        """Ask anew what there is; what is chosen stays so, if it is still there."""
        _: Worker[None] = self.run_worker(self._load, exclusive=True, group="load")

    def start_over(self) -> None:
        """Ask anew, as when it was opened: nothing is typed, and what is chosen is the list's to say."""
        self._known = None
        self.filter.value = ""
        self.rows.say("loading …")
        self.reload()

    async def _load(self) -> None:
        try:
            known = await self.options()
        except BullpenError as exc:
            self._known = None
            self.rows.say(one_line(exc), is_error=True)
            return
        self._known = known
        self.look()

    def look(self) -> None:
        """Show what is known, as far as it fits what was typed."""
        if self._known is None:
            return
        query = self.filter.value
        kept = self.chosen.key if self.chosen else self._wanted
        if self._known:
            self.rows.show(self._known, chosen="" if query.strip() else kept, query=query)
        if not self._known or not self.rows.options:
            self.rows.say("nothing fits what you typed: esc clears it" if self._known else self._empty)

    # Keys and mouse

    def on_input_changed(self, changed: Input.Changed) -> None:
        if changed.input.id == "filter":
            self.look()

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        if submitted.input.id == "filter":
            self.take()

    def on_rows_clicked(self, clicked: Rows.Clicked) -> None:
        if clicked.times == 2:
            self.take()

    def take(self) -> None:
        """Pick what is chosen."""
        if (option := self.chosen) is not None and not option.off:
            self.attempt(self.pick(option))

    def action_step(self, by: int) -> None:
        self.rows.step(by)

    def action_page(self, by: int) -> None:
        self.rows.page(by)

    def action_edge(self, by: int) -> None:
        self.rows.step(by * 1_000_000, wrap=False)

    def action_close(self) -> None:
        """First what was typed goes, then the list."""
        if self.filter.value:
            self.filter.value = ""
        else:
            self.decide()


class Twofold(Picker):
    """A list with another behind it: heirs name both, and bind a key to `turn`."""

    headings: ClassVar[tuple[str, str]]
    is_turned = False

    def action_turn(self) -> None:
        self.is_turned = not self.is_turned
        self.heading = self.headings[self.is_turned]
        self.turned()
        self.reload()

    def turned(self) -> None:
        """The other list is meant from now on."""


class Choices(Picker):
    """A list of things that are known already."""

    def __init__(self, heading: str, among: Sequence[Option], *, chosen: str = "", hint: str = "") -> None:
        super().__init__(heading, chosen=chosen, **({"hint": hint} if hint else {}))
        self._among = among

    async def options(self) -> Sequence[Option]:
        return self._among
