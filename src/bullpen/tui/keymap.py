"""Every key once: what it does, where, and in which words the help tells it.

A person may give an action other keys (`terminal.json`, "keys"). What would then mean two things at one place is refused, the first
one stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from textual.binding import Binding, BindingType

Place = Literal["everywhere", "editor", "transcript"]


class Key(NamedTuple):
    """What is done has the same id in `commands.py`. `footer` puts it into the short help."""

    id: str
    keys: str
    words: str
    place: Place = "everywhere"
    footer: bool = False
    priority: bool = True
    """Also while the editor has the focus and would take the key."""


KEYS: tuple[Key, ...] = (
    Key("palette", "ctrl+p", "all commands", footer=True),
    Key("help", "f1,ctrl+g", "all keys", footer=True),
    Key("sessions", "ctrl+s", "sessions", footer=True),
    Key("models", "ctrl+l", "models", footer=True),
    Key("new", "ctrl+n", "new session"),
    Key("cancel", "escape", "stop the turn, close, go back", priority=False),
    Key("leave", "ctrl+c,ctrl+q", "leave", footer=True),
    Key("focus", "tab", "editor or conversation", priority=False),
    Key("asks", "alt+a", "what waits for an answer"),
    Key("panel", "ctrl+t", "to-dos and queue"),
    Key("queue", "alt+q", "edit the queue"),
    Key("changes", "alt+u", "changed files, undo"),
    Key("jobs", "alt+j", "background jobs"),
    Key("people", "alt+p", "who is here"),
    Key("cost", "alt+c", "what it cost"),
    Key("notices", "alt+m", "past notices"),
    Key("sidebar", "ctrl+b", "sidebar"),
    Key("theme", "alt+t", "next theme"),
    Key("free", "ctrl+y", "allow everything, or ask again"),
    Key("follow", "ctrl+end", "to the end, and follow it"),
    Key("find", "ctrl+f", "find in the conversation"),
    Key("next_tab", "ctrl+pagedown,alt+right", "next tab"),
    Key("last_tab", "ctrl+pageup,alt+left", "tab before"),
    Key("close_tab", "alt+w", "close the tab"),
    Key("suspend", "ctrl+z", "to the shell; fg comes back"),
)
"""The keys of the main screen. Those of the editor and the conversation stand with their widgets, as `Key`s too."""


def bindings(keys: Iterable[Key]) -> list[BindingType]:
    """As Textual wants them: every key does the command of its id."""
    return [
        Binding(key.keys, f"do('{key.id}')", key.words, show=key.footer, priority=key.priority, id=key.id)
        for key in keys
    ]


def checked(own: Mapping[str, str], keys: Iterable[Key]) -> tuple[dict[str, str], list[str]]:
    """A person's own keys that can be used, and a line for each that cannot."""
    known = {key.id: key for key in keys}
    taken = {key.id: set(_split(key.keys)) for key in known.values()}
    usable: dict[str, str] = {}
    refused: list[str] = []
    for action, wanted in own.items():
        if action not in known:
            refused.append(f"there is no action {action}; the help (F1) lists them")
            continue
        clash = _clash(known[action], set(_split(wanted)), known, taken)
        if clash:
            refused.append(f"{action}: {wanted} already means {clash}")
            continue
        usable[action] = wanted
        taken[action] = set(_split(wanted))
    return usable, refused


def _clash(key: Key, wanted: set[str], known: Mapping[str, Key], taken: Mapping[str, set[str]]) -> str:
    for other, keys in taken.items():
        together = key.place == known[other].place or "everywhere" in (key.place, known[other].place)
        if other != key.id and together and keys & wanted:
            return known[other].words
    return ""


def _split(keys: str) -> Iterator[str]:
    return (key.strip() for key in keys.split(",") if key.strip())
