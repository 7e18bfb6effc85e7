"""A few fields to fill in: arguments of commands, names, keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from bullpen.present.inert import inert, inert_line
from bullpen.tui.dialogs.dialog import Dialog


@dataclass(frozen=True, slots=True)
class Field:
    """One line to write. `is_secret` shows signs in place of the letters."""

    name: str
    label: str = ""
    value: str = ""
    is_needed: bool = False
    is_secret: bool = False


class Form(Dialog[dict[str, str]]):
    """Dismissed with the values by name. Enter goes on, and from the last field sends it."""

    DEFAULT_CSS = """
    Form #box { width: 72; }
    Form #text { height: auto; margin-bottom: 1; }
    Form .label { height: auto; color: $faint; }
    Form Input { margin-bottom: 1; background: $panel; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,shift+tab", "step(-1)", "field before", priority=True, show=False),
        Binding("down,tab", "step(1)", "next field", priority=True, show=False),
    ]
    place = "Forms"

    def __init__(self, heading: str, fields: Sequence[Field], *, text: str = "", done: str = "send") -> None:
        super().__init__(heading, f"enter {'next, then ' if len(fields) > 1 else ''}{done}  esc close")
        self._fields = fields
        self._text = text

    def body(self) -> ComposeResult:
        if self._text:
            yield Static(Text(inert(self._text)), id="text")
        for field in self._fields:
            needed = " (needed)" if field.is_needed else ""
            yield Static(Text(f"{inert_line(field.label or field.name)}{needed}"), classes="label")
            yield Input(inert_line(field.value), password=field.is_secret, compact=True)

    def on_mount(self) -> None:
        self.query(Input).first().focus()

    def action_step(self, by: int) -> None:
        inputs = list(self.query(Input))
        at = next((n for n, each in enumerate(inputs) if each.has_focus), 0)
        inputs[(at + by) % len(inputs)].focus()

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        inputs = list(self.query(Input))
        if submitted.input is not inputs[-1]:
            self.action_step(1)
            return
        values = {field.name: each.value for field, each in zip(self._fields, inputs, strict=True)}
        for field, each in zip(self._fields, inputs, strict=True):
            if field.is_needed and not each.value.strip():
                each.focus()
                self.hint(f"{field.label or field.name} is needed", is_wrong=True)
                return
        self.decide(values)
