"""What the tests of the screen share: one real server for all of them, and a terminal on a project of its own."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.journeys.model_host import ModelHost, model_host
from tests.journeys.server import Bullpen
from textual.events import Key
from textual.keys import _character_to_key
from textual.pilot import Pilot

from bullpen.client.workspace import Room
from bullpen.tui.app import Terminal, Wish
from bullpen.tui.chat import ChatScreen
from bullpen.tui.preferences import Preferences

WAIT_S = 20.0

STILL = Preferences(motion="reduced")
"""Nothing moves by itself."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def github() -> Iterator[ModelHost]:
    """What the server takes for GitHub when somebody logs in to Copilot."""
    with model_host() as host:
        yield host


@pytest.fixture(scope="session")
def bullpen(github: ModelHost) -> Iterator[Bullpen]:
    """One server for every test of the screen; what they do in it, they do in projects of their own."""
    with tempfile.TemporaryDirectory(prefix="bp", ignore_cleanup_errors=True) as directory:
        server = Bullpen(Path(directory)).start(BULLPEN_COPILOT_HOST=github.url)
        with pytest.MonkeyPatch.context() as patch:
            # A terminal tells the server its environment, and with it whose settings are changed.
            for name, value in server.env.items():
                patch.setenv(name, value)
            yield server
        server.stop()


@dataclass
class Sitting:
    """A person at a terminal."""

    app: Terminal
    pilot: Pilot[int]

    @property
    def chat(self) -> ChatScreen:
        found = self.app.screen_stack[0]
        assert isinstance(found, ChatScreen)
        return found

    @property
    def room(self) -> Room:
        return self.chat.room

    @property
    def screen(self) -> str:
        """What can be read on the screen, row by row."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def until(self, holds: Callable[[], object], what: str = "") -> None:
        """Wait until it holds; the screen is told when it does not come to that."""
        with anyio.move_on_after(WAIT_S):
            while not holds():
                await self.pilot.pause(0.02)
            return
        raise AssertionError(f"waited for {what}; the screen says\n{self.screen}")

    async def until_shown(self, *texts: str) -> None:
        """Wait until all of these can be read."""
        await self.until(lambda: all(text in self.screen for text in texts), f"{texts} to be shown")

    async def type(self, text: str) -> None:
        """Type it, key by key, faster than anything is drawn."""
        for character in text:
            key = Key("enter", "\r") if character == "\n" else Key(_character_to_key(character), character)
            self.app.post_message(key)
        await self.pilot.pause()


@dataclass
class Desks:
    """Opens terminals on projects of one server."""

    server: Bullpen

    def project(self, *script: dict[str, Any], **more: Any) -> Path:
        """A directory with a scripted model of its own."""
        return self.server.project(*script, **more)

    @asynccontextmanager
    async def sit(
        self,
        project: Path,
        *,
        size: tuple[int, int] = (120, 40),
        preferences: Preferences = STILL,
        session: str = "",
        newest: bool = False,
        name: str = "ana",
    ) -> AsyncIterator[Sitting]:
        """A person who has just sat down, with the room entered."""
        wish = Wish(
            path=str(project), host=f"unix://{self.server.socket}", session=session, newest=newest, name=name
        )
        app = Terminal(wish, preferences)
        async with app.run_test(size=size) as pilot:
            sitting = Sitting(app, pilot)
            await sitting.until(lambda: sitting.chat.editor.session is not None, "the room")
            yield sitting


@pytest.fixture
def desks(bullpen: Bullpen) -> Desks:
    return Desks(bullpen)
