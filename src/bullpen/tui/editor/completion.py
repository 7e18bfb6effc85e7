"""Completes what is typed: mentions from the server, commands, and earlier prompts.

Typing never waits for the server. Each answer is held against what stands there by then, and asked for again when that is
something else; a key that wants to accept from a list that is still under way is carried out when it is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import anyio
from textual.geometry import Offset

from bullpen.errors import BullpenError
from bullpen.tui.editor import slash
from bullpen.tui.editor.area import Area
from bullpen.tui.editor.history import unique
from bullpen.tui.editor.mentions import Typing, hinted, typing, written
from bullpen.tui.editor.popup import Choice, Popup
from bullpen.tui.editor.sheet import Sheet

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

Find = Callable[["Room", str], Awaitable[list[Choice]]]
Accepting = Literal["", "accept", "send"]

PATIENCE_S = 3.0
"""A list that takes longer is not waited for: one goes on without it."""


class Completion:
    """The list above the caret and what it is made of."""

    def __init__(
        self, area: Area, popup: Popup, sheet: Sheet, *, find: Find, resend: Callable[[], None]
    ) -> None:
        """`find` asks the server for mentions; `resend` sends after all when a list that was waited for is empty."""
        self._area = area
        self._popup = popup
        self._sheet = sheet
        self._find = find
        self._resend = resend
        self._is_asking = False
        self._wanted = asyncio.Event()
        self._typing: Typing | None = None
        self._dismissed: Typing | None = None
        self._found: tuple[str, list[Choice]] | None = None
        self._commands: list[Choice] = slash.built_in()
        self._past: list[str] | None = None
        """Earlier prompts, while they are searched."""
        self._accepting: Accepting = ""

    @property
    def is_open(self) -> bool:
        return self._popup.is_open

    @property
    def is_waiting(self) -> bool:
        """Whether what is typed is being looked up."""
        return (
            self._is_asking
            and self._typing is not None
            and self._typing.kind == "mention"
            and (self._found is None or self._found[0] != self._typing.query)
        )

    async def keep_asking(self, room: Room) -> None:
        """Ask for what is typed, once however fast that changes."""
        self._is_asking = True
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self._typing is None:
                continue
            query, found = self._typing.query, list[Choice]()
            with suppress(BullpenError), anyio.move_on_after(PATIENCE_S):
                if self._typing.kind == "command":
                    self._commands = await slash.offered(room)
                else:
                    found = await self._find(room, query)
            self._found = (query, found)
            self._show()
            self._carry_out()

    def look(self) -> None:
        """The text or the caret is another one."""
        if self._past is not None:
            self._show()
            return
        row, column = self._area.cursor_location
        now = typing(self._area.text, row, column)
        if now is None or self._typing is None or now.kind != self._typing.kind:
            self._found, self._accepting = None, ""
            if now is not None:
                self._wanted.set()
        elif now != self._typing and now.kind == "mention":
            self._wanted.set()
        self._typing = now
        if now != self._dismissed:
            self._dismissed = None
        self._show()

    def search(self, past: Iterable[str]) -> None:
        """List earlier prompts; what is typed from now on narrows them."""
        self._past = unique(past)
        self._show()

    def close(self) -> bool:
        """Whether there was something to close, be it a list that is empty or under way. What it was for is not offered again before
        it changes."""
        is_under_way = self.is_waiting and self._dismissed is None
        was_open = self._popup.is_open or self._past is not None or is_under_way
        self._dismissed, self._past, self._accepting = self._typing, None, ""
        self._popup.close()
        return was_open

    def reset(self) -> None:
        """Another text stands there."""
        self._typing = self._dismissed = self._past = self._found = None
        self._accepting = ""
        self._popup.close()

    def move(self, step: int) -> None:
        self._popup.move(step)

    def accept(self, *, sending: bool = False) -> bool:
        """Take what is chosen; whether that is all a key meant. With `sending` a command that needs no more words is to be sent."""
        if self.is_waiting and self._dismissed is None:
            self._accepting = "send" if sending else "accept"
            return True
        if not self._popup.is_open:
            return False
        choice, past, now = self._popup.chosen, self._past, self._typing
        self._popup.close()
        if past is not None:
            self._past = None
            self._area.swap(choice.value)
            return True
        assert now is not None
        if now.kind == "command":
            is_whole = now.query == choice.value
            if not is_whole or not sending:
                self._replace(now, f"/{choice.value} ")
            return not (sending and (is_whole or not choice.takes))
        self._sheet.accepted[choice.value] = choice.source
        more = "" if choice.value.endswith("/") else " "
        self._replace(now, written(choice.value, now.lines) + more)
        return True

    def _replace(self, now: Typing, text: str) -> None:
        row, column = self._area.cursor_location
        result = self._area.replace(text, (row, now.start), (row, column), maintain_selection_offset=False)
        self._area.move_cursor(result.end_location)

    def _carry_out(self) -> None:
        """Do what a key wanted that came before the list."""
        wanted, is_there = self._accepting, not self.is_waiting
        if not wanted or not is_there:
            return
        self._accepting = ""
        if not self.accept() and wanted == "send":
            self._resend()

    def _show(self) -> None:
        now = self._typing
        row, column = self._area.cursor_location
        if self._past is not None:
            wanted = self._area.text.lower()
            fitting = [past for past in reversed(self._past) if wanted in past.lower()]
            choices = [Choice(past, past) for past in fitting]
            self._popup.show(choices, self._area.cursor_screen_offset - Offset(column, 0))
        elif now is not None and now != self._dismissed:
            choices = self._choices(now)
            self._popup.show(choices, self._area.cursor_screen_offset - Offset(column - now.start, 0))
        elif now is None and (hint := self._hint(row)):
            self._popup.hint(hint, self._area.cursor_screen_offset - Offset(column, 0))
        else:
            self._popup.close()

    def _choices(self, now: Typing) -> list[Choice]:
        if now.kind == "command":
            return slash.ranked(self._commands, now.query)
        if self._found is None:
            return []
        query, choices = self._found
        if query == now.query:
            return choices
        return [choice for choice in choices if _follows(now.query.lower(), choice.value.lower())]

    def _hint(self, row: int) -> str:
        name = hinted(self._area.text, row)
        found = next((choice for choice in self._commands if choice.value == name and choice.takes), None)
        return f"{found.label}  {found.detail}" if found else ""


def _follows(query: str, name: str) -> bool:
    """Whether the letters of the query stand in the name, in their order."""
    rest = iter(name)
    return all(letter in rest for letter in query)
