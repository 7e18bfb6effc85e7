"""What is said to the terminal itself, beside the screen: its title, and a sign for a person who looks elsewhere.

Sequences are those that terminals agree on: OSC 2 for titles, OSC 9, 99 and 777 for notices, the bell where none of them is known.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from bullpen.present.inert import cut, inert_line
from bullpen.tui.preferences import Notify

LONGEST = 120

OSC_9 = ("iTerm.app", "ghostty", "WezTerm", "rio")
OSC_777 = ("foot", "rxvt")


class Outside:
    """Writes to the terminal. What others wrote is made inert first: a title is no place for orders."""

    def __init__(
        self, write: Callable[[str], None], notify: Notify, env: Mapping[str, str] = os.environ
    ) -> None:
        self._write = write
        self._how = notify
        self._env = env
        self.is_looked_at = True
        """As far as the terminal tells; those that do not are taken to be looked at."""

    def title(self, text: str) -> None:
        """Name the window."""
        self._send(f"\x1b]2;{_words(text)}\x1b\\")

    def keep_title(self) -> None:
        """Have the terminal remember its title."""
        self._send("\x1b[22;2t")

    def restore_title(self) -> None:
        self._send("\x1b[23;2t")

    def call(self, text: str) -> bool:
        """Call a person who looks elsewhere; whether anything was sent."""
        if self.is_looked_at or self._how == "off":
            return False
        self._send(self._notice(_words(text)))
        return True

    def _notice(self, words: str) -> str:
        program = self._env.get("TERM_PROGRAM", "")
        term = self._env.get("TERM", "")
        if self._how == "bell":
            return "\a"
        if "kitty" in term or program == "kitty":
            return f"\x1b]99;;{words}\x1b\\"
        if term.startswith(OSC_777):
            return f"\x1b]777;notify;bullpen;{words}\x1b\\"
        if self._how == "osc" or program in OSC_9 or self._env.get("WT_SESSION"):
            return f"\x1b]9;{words}\x1b\\"
        return "\a"

    def _send(self, sequence: str) -> None:
        if self._env.get("TMUX") and sequence.startswith("\x1b]") and not sequence.startswith("\x1b]2;"):
            # tmux hands on what is wrapped for it, where its user allows that.
            sequence = "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
        self._write(sequence)


def _words(text: str) -> str:
    return cut(inert_line(text).replace(";", ","), LONGEST)
