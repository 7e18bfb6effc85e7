"""Why a turn waits: the model's host refused, and will be asked again."""

from __future__ import annotations

import time

from rich.text import Text
from textual.timer import Timer
from textual.widgets import Static

from bullpen.present.inert import inert_line
from bullpen.schema.events import RunWaiting
from bullpen.tui.panel import clock


class Refusal(Static):
    """Below the conversation, so that it is seen wherever one reads. Its clock counts down, motion or not."""

    DEFAULT_CSS = """
    Refusal { dock: bottom; height: auto; max-height: 4; color: $warning; display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: RunWaiting | None = None
        self._countdown: Timer

    def on_mount(self) -> None:
        self._countdown = self.set_interval(1, self._tell, pause=True)

    def show(self, waiting: RunWaiting | None) -> None:
        """The turn waits; or it goes on."""
        self._waiting = waiting
        self.display = waiting is not None
        if waiting is None:
            self._countdown.pause()
        else:
            self._countdown.resume()
            self._tell()

    def _tell(self) -> None:
        waiting = self._waiting
        if waiting is None:
            return
        left = clock(max(waiting.until - time.time(), 0))
        model = f"{inert_line(waiting.model)}: " if waiting.model else ""
        reason = inert_line(waiting.reason)
        self.update(Text(f"⧗ {model}{reason}  attempt {waiting.attempt}, again in {left}  (r asks now)"))
