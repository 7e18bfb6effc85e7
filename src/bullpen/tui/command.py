"""What a command is, for those who make the table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bullpen.tui.chat import ChatScreen


class Command(NamedTuple):
    """`id` is also its slash name, and so are the `aliases`; `takes` shows which words may follow it."""

    id: str
    title: str
    run: Callable[[ChatScreen, str], Awaitable[None]]
    takes: str = ""
    aliases: tuple[str, ...] = ()
