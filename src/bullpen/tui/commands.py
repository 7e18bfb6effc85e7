"""What can be done on the main screen: by key, from the palette, or typed with a slash. One table for all three.

A command gets the screen and, when it was typed, the words behind its name. It may raise what the server says against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bullpen.errors import BadRequest
from bullpen.present.custom import prepare
from bullpen.present.inert import inert_line
from bullpen.tui import keymap, themes
from bullpen.tui.command import Command
from bullpen.tui.dialogs import help as help_dialog
from bullpen.tui.dialogs import palette
from bullpen.tui.dialogs.opening import OPENING
from bullpen.tui.keys import ALL_KEYS

if TYPE_CHECKING:
    from bullpen.tui.chat import ChatScreen


async def _palette(chat: ChatScreen, _words: str) -> None:
    own, _ = keymap.checked(chat.preferences.keys, ALL_KEYS)
    keys = {key.id: help_dialog.shown(key, own).split(", ")[0] for key in keymap.KEYS}
    if picked := await chat.ask(palette.Palette(chat.room, list(COMMANDS.values()), keys)):
        await palette.use(chat, picked)


async def _help(chat: ChatScreen, _words: str) -> None:
    own, _ = keymap.checked(chat.preferences.keys, ALL_KEYS)
    if picked := await chat.ask(help_dialog.Help(chat, own)):
        await palette.use(chat, picked)


async def _asks(chat: ChatScreen, _words: str) -> None:
    if not chat.desk.recall():
        chat.notice("nothing was put aside")


async def _new(chat: ChatScreen, title: str) -> None:
    await chat.open_new(title)


async def _cancel(chat: ChatScreen, _words: str) -> None:
    await chat.cancel()


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
        Command("palette", "All commands", _palette, aliases=("commands",)),
        Command("help", "All keys", _help, aliases=("keys",)),
        Command("asks", "What waits for an answer", _asks),
        *OPENING,
        Command("new", "New session", _new, "[title]", aliases=("clear",)),
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
    )
}


def find(name: str) -> Command | None:
    """The command of that id or alias."""
    return COMMANDS.get(name) or next((each for each in COMMANDS.values() if name in each.aliases), None)


async def run_command(chat: ChatScreen, name: str, words: str = "") -> None:
    """Do the command of that name, one of the table or one that people keep in files. Raises what is said against it."""
    if command := find(name):
        await command.run(chat, words)
        return
    prepared = await prepare(chat.room, f"/{name} {words}")
    if prepared is None:
        raise BadRequest(f"there is no /{inert_line(name)}; Ctrl+P lists what there is")
    await chat.say(prepared)
