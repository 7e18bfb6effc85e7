"""What the editor says while it is empty, and what a text means by how it begins."""

from __future__ import annotations

import re

LEAVING = frozenset({"exit", "quit"})
"""Said alone, they mean what they mean in a shell."""

_COMMAND = re.compile(r"/([^\s/]+)(?=\s|$)")


def placeholder(*, attached: bool, busy: bool, in_shell: bool, free: bool) -> str:
    """What can be done here now."""
    if not attached:
        return "Attaching… you can already write"
    if in_shell:
        return "A shell command, run at once and shown to the agent later. Backspace leaves"
    if busy:
        return "Enter: it waits its turn   Alt+Enter: it is heard at once   Esc: stop"
    allowed = "Everything is allowed.  " if free else ""
    return f"{allowed}What is to be done?  @ file   / command   ! shell   Shift+Enter new line"


def command_of(text: str) -> str:
    """The name of the command that a text is; one that begins with a path or with two slashes is none."""
    found = _COMMAND.match(text)
    return found[1] if found else ""
