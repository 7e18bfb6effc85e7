"""Every key, by the place where it counts, as this person has it. Taken from the tables that the keys themselves are made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen

from bullpen.tui import keymap
from bullpen.tui.dialogs.dialog import Dialog
from bullpen.tui.dialogs.picker import Picker
from bullpen.tui.dialogs.rows import Option

SIGNS = {
    "escape": "esc",
    "pageup": "page up",
    "pagedown": "page down",
    "question_mark": "?",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "slash": "/",
}


class Help(Picker):
    """Picked is the command of a key, which is then done; a key of another place does nothing from here."""

    def __init__(self, chat: Screen[None], own: Mapping[str, str]) -> None:
        super().__init__("Keys", hint="type a key or a word  enter do it  esc close", prompt="which key?")
        self._under = chat
        self._own = own

    def at_once(self) -> Sequence[Option]:
        return [
            *(
                Option(
                    f"do:{key.id}", key.words, right=shown(key, self._own), group="Everywhere", also=key.id
                )
                for key in keymap.KEYS
            ),
            *self._of_widgets(),
            *self._of_dialogs(),
        ]

    async def options(self) -> Sequence[Option]:
        return self.at_once()

    def _of_widgets(self) -> Iterator[Option]:
        """Widgets on the main screen that are ours and have keys of their own."""
        for kind in dict.fromkeys(type(widget) for widget in self._under.query("*")):
            if kind.__module__.startswith("bullpen."):
                yield from _told(kind, f"In: {kind.__name__.lower()}", self._own)

    def _of_dialogs(self) -> Iterator[Option]:
        for kind in _heirs(Dialog):
            place = kind.__name__ if kind.place == "Dialogs" and kind is not Dialog else kind.place
            yield from _told(kind, place, self._own)

    async def pick(self, option: Option) -> None:
        if option.key.startswith("do:"):
            self.decide(option.key)


def _heirs(kind: type[Dialog[object]]) -> Iterator[type[Dialog[object]]]:
    yield kind
    for heir in kind.__subclasses__():
        yield from _heirs(heir)


def _told(kind: type[DOMNode], group: str, own: Mapping[str, str]) -> Iterator[Option]:
    """The keys that a class adds to those it inherits."""
    for number, binding in enumerate(_bindings(vars(kind).get("BINDINGS", ()))):
        if binding.description:
            keys = own.get(binding.id or "", binding.key)
            yield Option(f"{kind.__name__}.{number}", binding.description, right=pretty(keys), group=group)


def _bindings(given: Iterable[BindingType]) -> Iterator[Binding]:
    for each in given:
        if isinstance(each, Binding):
            yield each
        else:
            yield Binding(each[0], each[1], each[2] if len(each) == 3 else "")


def shown(key: keymap.Key, own: Mapping[str, str]) -> str:
    """The keys of an action as a person reads them."""
    return pretty(own.get(key.id, key.keys))


def pretty(keys: str) -> str:
    names = (key.strip() for key in keys.split(","))
    return ", ".join("+".join(SIGNS.get(part, part) for part in name.split("+")) for name in names)
