"""The application: it paints first, then attaches, and from then on lets the screen know what moves.

start ──▶ first paint ──▶ attaching ──▶ attached ◀──▶ link lost (the room comes back by itself)
                             │               │
                             └── refused ────┴──▶ one line, and how to go on
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import anyio.to_thread
from textual.app import App
from textual.worker import Worker, WorkerError

from bullpen.errors import BullpenError
from bullpen.tui import keymap, themes
from bullpen.tui.chat import ChatScreen
from bullpen.tui.gone import leave_with_terminal
from bullpen.tui.keys import ALL_KEYS
from bullpen.tui.outside import Outside
from bullpen.tui.preferences import Preferences
from bullpen.tui.sidebar import short_path

if TYPE_CHECKING:
    from bullpen.client.workspace import Room


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody asked for when they started the client."""

    path: str
    host: str | None = None
    session: str = ""
    name: str = ""
    newest: bool = False
    """Go on with the session used last."""
    yolo: bool = False


class Terminal(App[int], inherit_bindings=False):
    """One person's terminal on one workspace."""

    TITLE = "bullpen"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "bullpen.tcss"

    def __init__(self, wish: Wish, preferences: Preferences, complaint: str = "") -> None:
        super().__init__()
        self.wish = wish
        self.preferences = preferences
        self.failure: BullpenError | None = None
        """Why it ended by itself."""
        self._complaint = complaint
        self.outside = Outside(self._say_outside, preferences.notify)
        self._chat = ChatScreen(wish, preferences, self.outside)
        self._staying: Worker[None] | None = None

    def get_default_screen(self) -> ChatScreen:
        return self._chat

    def on_mount(self) -> None:
        self.outside.keep_title()
        self.outside.title(f"bullpen {short_path(self.wish.path)}")
        for theme in themes.ALL.values():
            self.register_theme(theme)
        self.theme = themes.chosen(self.preferences.theme).name
        if self.preferences.motion == "reduced":
            self.animation_level = "none"
        own, refused = keymap.checked(self.preferences.keys, ALL_KEYS)
        self.set_keymap(own)
        for line in (*([self._complaint] if self._complaint else ()), *refused):
            self._chat.notice(line, kind="warning")
        # Nothing waits for the network before the first frame is out.
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self._staying = self.run_worker(self._stay)

    async def on_unmount(self) -> None:
        """Leave the room before the loop ends: connections are closed, and others see us go."""
        self.outside.restore_title()
        if self._staying is not None:
            self._staying.cancel()
            with suppress(WorkerError):
                await self._staying.wait()

    def on_app_focus(self) -> None:
        self.outside.is_looked_at = True

    def on_app_blur(self) -> None:
        self.outside.is_looked_at = False

    def _say_outside(self, sequence: str) -> None:
        if self._driver is not None and not self.is_headless:
            self._driver.write(sequence)
            self._driver.flush()

    async def _stay(self) -> None:
        wish = self.wish
        # What speaks HTTP takes a third of the time until the first frame; it can come after that.
        attach = (await anyio.to_thread.run_sync(import_module, "bullpen.client.workspace")).attach
        try:
            async with attach(wish.path, host=wish.host, name=wish.name, yolo=wish.yolo) as room:
                await self._follow(room)
        except BullpenError as exc:
            self.failure = exc
            self.exit(1)

    async def _follow(self, room: Room) -> None:
        updates = room.updates()
        await self._chat.enter(room, updates)
        async for update in updates:
            if self.is_running:  # What comes while it closes finds no widgets any more.
                self._chat.take(update)


def run(wish: Wish, preferences: Preferences, complaint: str = "") -> int:
    """Stay until the person leaves; the answer is the exit status. Raises what ended the room for good."""
    app = Terminal(wish, preferences, complaint)
    leave_with_terminal()
    app.run(mouse=preferences.mouse)
    if app.failure is not None:
        raise app.failure
    return app.return_code or 0
