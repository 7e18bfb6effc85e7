"""Slash commands about turns and prompts: stopped, said now or later, and the queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from bullpen.client.shell import run_shell
from bullpen.client.workspace import Room
from bullpen.plain.view import View
from bullpen.present.inert import inert_line
from bullpen.schema.agent import QueuedPrompt


class QueueCommands:
    """What runs and what waits in the session one is in."""

    def __init__(self, room: Room, view: View) -> None:
        self._room = room
        self._view = view
        self.all: dict[str, Callable[[str], Awaitable[None]]] = {
            "cancel": self.cancel,
            "now": self._now,
            "after": self._after,
            "wake": self._wake,
            "queue": self._queue,
            "edit": self._edit,
            "move": self._move,
            "drop": self._drop,
            "shell": self.shell,
        }

    async def cancel(self, _rest: str = "") -> None:
        """Cancel the running turn and what waits behind it."""
        if not self._room.current_session:
            self._view.note("nothing is running")
            return
        for text in await self._room.cancel():
            self._view.note(f"dropped: {inert_line(text)}")

    async def shell(self, command: str) -> None:
        """Run a person's own command; its output comes as everybody sees it."""
        if not command:
            self._view.note("what is to run? ! or /shell and the command")
            return
        if not self._room.current_session:
            await self._room.new_session()
        await run_shell(self._room, command)

    async def _now(self, text: str) -> None:
        await self._send(text, "now")

    async def _after(self, text: str) -> None:
        await self._send(text, "after")

    async def _send(self, text: str, when: Literal["now", "after"]) -> None:
        if not text:
            self._view.note(f"what is to be said? /{when} and the words")
            return
        self._view.expect(text)
        await self._room.prompt(text, when=when)

    async def _wake(self, _rest: str) -> None:
        if not self._room.current_session or not await self._room.wake():
            self._view.note("nothing waits for a model")

    # What waits

    async def _queue(self, _rest: str) -> None:
        rows = [
            f"  {number:>2} {inert_line(p.text)}" + (f"  ({inert_line(p.author)})" if p.author else "")
            for number, p in enumerate(await self._waiting(), 1)
        ]
        self._view.block("\n".join(rows) or "  nothing waits")

    async def _edit(self, wanted: str) -> None:
        number, _, text = wanted.partition(" ")
        found = await self._meant(number)
        if found and text.strip():
            await self._room.edit(found.seq, text=text.strip())
        elif found:
            self._view.note(f"what is it to say? /edit {number} and the words")

    async def _move(self, wanted: str) -> None:
        number, _, place = wanted.partition(" ")
        found = await self._meant(number)
        if found and place.isdecimal() and int(place) >= 1:
            await self._room.edit(found.seq, index=int(place) - 1)
            await self._queue("")
        elif found:
            self._view.note(f"where to? /move {number} 1 makes it the next")

    async def _drop(self, number: str) -> None:
        if found := await self._meant(number):
            await self._room.withdraw(found.seq)

    async def _waiting(self) -> list[QueuedPrompt]:
        return await self._room.queue() if self._room.current_session else []

    async def _meant(self, number: str) -> QueuedPrompt | None:
        waiting = await self._waiting()
        if number.isdecimal() and 1 <= int(number) <= len(waiting):
            return waiting[int(number) - 1]
        self._view.note("which one? /queue numbers them")
        return None
