"""What Textual's own widgets do with the same work: the program beside which ours is measured. Run as `python -m bench.own_widgets WORK`."""

from __future__ import annotations

import asyncio
import sys

from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Footer, Markdown, Static, TextArea

MESSAGES = 10_000
"""So many in a long session; `bench/terminal.py` counts on it too."""

TOKENS, PER_S = 3_000, 200


class Typing(App[None]):
    def compose(self) -> ComposeResult:
        yield TextArea()
        yield Footer()


class Streaming(App[None]):
    """An answer that grows, as Textual itself recommends to show it."""

    def compose(self) -> ComposeResult:
        with VerticalScroll() as place:
            place.anchor()
            yield Markdown()

    def on_mount(self) -> None:
        self.run_worker(self._grow())

    async def _grow(self) -> None:
        stream = Markdown.get_stream(self.query_one(Markdown))
        for number in range(TOKENS):
            await stream.write(f"tok{number} ")
            await asyncio.sleep(1 / PER_S)
        await stream.stop()


class Many(App[None]):
    def compose(self) -> ComposeResult:
        with VerticalScroll():
            for number in range(MESSAGES):
                yield Static(f"message {number}: some words that say little about anything at all")


if __name__ == "__main__":
    {"typing": Typing, "streaming": Streaming, "many": Many}[sys.argv[1]]().run()
