"""The keys of the editor, for itself and for the help."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from bullpen.tui.keymap import Key

KEYS: tuple[Key, ...] = (
    Key("send", "enter", "send; waits its turn while the agent works", "editor"),
    Key("newline", "shift+enter,ctrl+j", "new line, as \\ and enter", "editor"),
    Key("send_now", "alt+enter", "send, and be heard at once", "editor"),
    Key("send_step", "alt+s", "send for the next step", "editor"),
    Key("earlier", "up", "earlier prompts, from the first line", "editor"),
    Key("later", "down", "later prompts, from the last line", "editor"),
    Key("search_history", "ctrl+r", "search earlier prompts", "editor"),
    Key("external", "ctrl+o", "write in your own editor", "editor"),
    Key("clipboard", "ctrl+v", "paste, images too", "editor"),
    Key("detach", "alt+x", "remove the last attachment", "editor"),
    Key("unfold", "alt+e", "put pasted text back into the prompt", "editor"),
    Key("undo_typing", "ctrl+underscore,alt+z", "undo typing", "editor"),
    Key("redo_typing", "alt+y", "redo typing", "editor"),
    Key("accept", "tab", "accept what the list offers", "editor"),
    Key("list_next", "ctrl+n", "next in the list", "editor"),
    Key("list_last", "ctrl+p", "the one before in the list", "editor"),
    Key("step_back", "escape", "close the list, back to the draft", "editor"),
)

LIST_KEYS = frozenset({"new", "palette"})
"""What Ctrl+N and Ctrl+P do while no list is open."""

BINDINGS: list[BindingType] = [
    *(Binding(key.keys, key.id, key.words, show=key.footer, id=key.id) for key in KEYS),
    Binding("backspace", "leave_shell", show=False),
]
