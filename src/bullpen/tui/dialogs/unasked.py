"""Dialogs that nobody called: they come up by themselves, and wait until the keyboard was quiet."""

from __future__ import annotations

from typing import TypeVar

from bullpen.tui.dialogs.dialog import Dialog
from bullpen.tui.dialogs.quiet import QUIET_S, Quiet

T = TypeVar("T")


class Unasked(Dialog[T]):
    """Heirs ask `quiet` whether a key counts. Until then the row of help says that none does."""

    def __init__(self, heading: str, hint: str = "esc close") -> None:
        super().__init__(heading, hint)
        self.quiet = Quiet()

    def on_mount(self) -> None:
        self.hint("keys count in a moment …")
        self.set_timer(QUIET_S, self._look_whether_quiet)

    def _look_whether_quiet(self) -> None:
        if self.quiet.is_over:
            self.settled()
        else:
            self.set_timer(QUIET_S / 4, self._look_whether_quiet)

    def settled(self) -> None:
        """From now on keys count."""
        self.usual_hint()
