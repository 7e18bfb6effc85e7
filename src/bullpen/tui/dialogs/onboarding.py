"""The first time: no model is ready yet. What was found is offered, a key can be entered, and the tour is one key away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.events import Key
from textual.widgets import Static

from bullpen.present.choosing import DEMO, Choice, choices, make_ready, tour
from bullpen.present.inert import inert_line
from bullpen.tui.dialogs.keyed import Keyed, answer
from bullpen.tui.dialogs.rows import Option, Rows
from bullpen.tui.dialogs.unasked import Unasked

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

OFFERED = 6
"""So many models have a key of their own here; the list of models has all."""


class Onboarding(Keyed[str], Unasked[str]):
    """Dismissed with what is to come: `models` for the list, or a sentence about what was chosen."""

    DEFAULT_CSS = "Onboarding #text { height: auto; }"

    def __init__(self, room: Room) -> None:
        super().__init__("Welcome to Bullpen", "press a key, or choose and enter  esc look around first")
        self._room = room
        self._found: list[Choice] = []
        self._tour: Choice | None = None

    def body(self) -> ComposeResult:
        yield Static(Text("Looking for keys and local models …"), id="text")
        yield Rows()

    def on_mount(self) -> None:
        self.attempt(self._look())

    async def _look(self) -> None:
        among = await choices(self._room)
        self._tour = tour(among)
        self._found = [choice for choice in among if choice.usual and choice.provider != DEMO][:OFFERED]
        text = (
            "No model is chosen yet. These can be used right away:"
            if self._found
            else "No key and no local model was found. The tour needs neither; a provider's key can be entered."
        )
        self.query_one("#text", Static).update(Text(text))
        self.rows.show(self.answers(), chosen=None)

    def answers(self) -> Sequence[Option]:
        found = [
            Option(str(number), inert_line(choice.label), right=inert_line(choice.provider), mark=str(number))
            for number, choice in enumerate(self._found, 1)
        ]
        guided = [answer("t", "try the guided tour: a built-in model, nothing leaves this machine")]
        return [
            *found,
            *(guided if self._tour else ()),
            answer("m", "all models, or enter a provider's key"),
        ]

    def takes(self, event: Key) -> bool:
        return self.quiet.counts(event.time)

    def answered(self, key: str) -> None:
        if key == "m":
            self.decide("models")
            return
        choice = self._tour if key == "t" else self._found[int(key) - 1]
        if choice is not None:
            self.attempt(self._take(choice))

    async def _take(self, choice: Choice) -> None:
        await make_ready(self._room, choice)
        self.decide(f"model: {inert_line(choice.name)}")
