"""What was sent before: in this session, or in all of them where there is no session yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bullpen.schema.message import Message, ShellCommandPart

if TYPE_CHECKING:
    from bullpen.client.workspace import Room

TOLD_BY_SERVER = "[Background job "
"""How prompts begin that nobody typed."""


class Past:
    def __init__(self) -> None:
        self._sent: dict[str, list[str]] = {}
        """From here, by session: the server tells it later."""
        self._everywhere: list[str] = []

    def remember(self, session: str, text: str) -> None:
        """It has just been sent."""
        self._sent.setdefault(session, []).append(text)

    async def fetch(self, room: Room) -> None:
        """Ask what people said in all sessions. Raises what the server says against it."""
        said = (await room.call("GET", "/messages/user")).read(list[Message])
        typed = (_typed(message) for message in reversed(said))
        self._everywhere = [text for text in typed if not text.startswith(TOLD_BY_SERVER)]

    def entries(self, room: Room | None, session: str) -> Iterator[str]:
        """What was sent, the oldest first; shell commands with their mark."""
        if room and session:
            said = (_typed(each) for each in room.messages(session) if each.role == "user")
            yield from (text for text in said if not text.startswith(TOLD_BY_SERVER))
        else:
            yield from self._everywhere
        yield from self._sent.get("", ())
        if session:
            yield from self._sent.get(session, ())


def _typed(message: Message) -> str:
    shell = next((part.data.command for part in message.parts if isinstance(part, ShellCommandPart)), None)
    return message.text if shell is None else f"!{shell}"
