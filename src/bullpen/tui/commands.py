"""What can be done on the main screen: by key, from the palette, or typed with a slash. One table for all three.

A command gets the screen and, when it was typed, the words behind its name. It may raise what the server says against it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from bullpen.tui import themes

if TYPE_CHECKING:
    from bullpen.tui.chat import ChatScreen


class Command(NamedTuple):
    """`id` is also its slash name; `takes` shows which words may follow it."""

    id: str
    title: str
    run: Callable[[ChatScreen, str], Awaitable[None]]
    takes: str = ""


async def _new(chat: ChatScreen, title: str) -> None:
    await chat.open_new(title)


async def _cancel(chat: ChatScreen, _words: str) -> None:
    await chat.cancel()


async def _leave(chat: ChatScreen, _words: str) -> None:
    chat.app.exit(0)


async def _focus(chat: ChatScreen, _words: str) -> None:
    (chat.transcript if chat.editor.has_focus_within else chat.editor).focus()


async def _panel(chat: ChatScreen, _words: str) -> None:
    chat.panel.toggle()


async def _sidebar(chat: ChatScreen, _words: str) -> None:
    chat.toggle_sidebar()


async def _theme(chat: ChatScreen, _words: str) -> None:
    names = [theme.name for theme in themes.ALL.values()]
    chat.app.theme = names[(names.index(chat.app.theme) + 1) % len(names)]


async def _follow(chat: ChatScreen, _words: str) -> None:
    chat.transcript.follow()


async def _find(chat: ChatScreen, _words: str) -> None:
    chat.transcript.find()


async def _next_tab(chat: ChatScreen, _words: str) -> None:
    await chat.step_tab(1)


async def _last_tab(chat: ChatScreen, _words: str) -> None:
    await chat.step_tab(-1)


async def _close_tab(chat: ChatScreen, _words: str) -> None:
    await chat.close_tab()


async def _suspend(chat: ChatScreen, _words: str) -> None:
    chat.app.action_suspend_process()


COMMANDS: dict[str, Command] = {
    command.id: command
    for command in (
        Command("new", "New session", _new, "[title]"),
        Command("cancel", "Stop the running turn", _cancel),
        Command("focus", "Editor or conversation", _focus),
        Command("panel", "Show or hide to-dos and queue", _panel),
        Command("sidebar", "Show or hide the sidebar", _sidebar),
        Command("theme", "Next theme", _theme),
        Command("follow", "To the end of the conversation", _follow),
        Command("find", "Find in the conversation", _find),
        Command("next_tab", "Next tab", _next_tab),
        Command("last_tab", "Tab before", _last_tab),
        Command("close_tab", "Close the tab", _close_tab),
        Command("suspend", "To the shell", _suspend),
        Command("leave", "Leave; the turn goes on", _leave),
    )
}
