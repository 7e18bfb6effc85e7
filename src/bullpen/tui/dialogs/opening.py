"""The commands that open a dialog, and do what was decided in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bullpen.errors import BadRequest
from bullpen.present.choosing import choices, choose_for_session, make_ready, pick
from bullpen.present.inert import inert_line
from bullpen.present.sessions import find_session
from bullpen.schema.api import Skip
from bullpen.tui.command import Command
from bullpen.tui.dialogs.changes import Changes
from bullpen.tui.dialogs.jobs import Jobs
from bullpen.tui.dialogs.keyed import Confirm
from bullpen.tui.dialogs.leave import Leave
from bullpen.tui.dialogs.lists import Cost, Notices, People
from bullpen.tui.dialogs.models import Models
from bullpen.tui.dialogs.onboarding import Onboarding
from bullpen.tui.dialogs.queue import Queue
from bullpen.tui.dialogs.rewinding import Prompts, Rewinding
from bullpen.tui.dialogs.servers import LanguageServers, ToolServers
from bullpen.tui.dialogs.sessions import Sessions
from bullpen.tui.dialogs.trash import Trash
from bullpen.tui.dialogs.trusting import Trusting
from bullpen.tui.editor.messages import Submitted

if TYPE_CHECKING:
    from bullpen.tui.chat import ChatScreen


async def _sessions(chat: ChatScreen, words: str) -> None:
    if words:
        await chat.open(find_session(chat.room, words).id)
    elif picked := await chat.ask(Sessions(chat.room)):
        await chat.open(picked)


async def _trash(chat: ChatScreen, _words: str) -> None:
    if picked := await chat.ask(Trash(chat.room)):
        await chat.open(picked)


async def _rewind(chat: ChatScreen, _words: str) -> None:
    """From the preview one comes back to the list; what was said is in the editor again afterwards."""
    chosen = ""
    while message_id := await chat.ask(Prompts(chat.room, chosen=chosen)):
        if outcome := await chat.ask(Rewinding(chat.room, message_id)):
            await chat.open(outcome.session_id)
            # A slash in front would be a command when it is sent again.
            chat.editor.give_back(Submitted(f"{'/' * outcome.text.startswith('/')}{outcome.text}"))
            chat.notice(outcome.told)
            return
        chosen = message_id


async def _models(chat: ChatScreen, words: str) -> None:
    if not words:
        if said := await chat.ask(Models(chat.room)):
            chat.notice(said)
        return
    choice = pick(words, await choices(chat.room))
    if chat.session is not None and (await chat.room.agent()).is_ready:
        await choose_for_session(chat.room, chat.session.id, choice)
    else:
        await make_ready(chat.room, choice)
    chat.notice(f"model: {inert_line(choice.name)}")


async def _onboarding(chat: ChatScreen, _words: str) -> None:
    said = await chat.ask(Onboarding(chat.room))
    if said == "models":
        await _models(chat, "")
    elif said:
        chat.notice(said)


async def _queue(chat: ChatScreen, _words: str) -> None:
    await chat.ask(Queue(chat.room))


async def _changes(chat: ChatScreen, _words: str) -> None:
    await chat.ask(Changes(chat.room))


async def _jobs(chat: ChatScreen, _words: str) -> None:
    await chat.ask(Jobs(chat.room))


async def _people(chat: ChatScreen, _words: str) -> None:
    if picked := await chat.ask(People(chat.room)):
        await chat.open(picked)


async def _cost(chat: ChatScreen, _words: str) -> None:
    await chat.ask(Cost(chat.room))


async def _notices(chat: ChatScreen, _words: str) -> None:
    await chat.ask(Notices(list(chat.notices)))


async def _trust(chat: ChatScreen, _words: str) -> None:
    await chat.ask(Trusting(chat.room))


async def _mcp(chat: ChatScreen, _words: str) -> None:
    await chat.ask(ToolServers(chat.room))


async def _lsp(chat: ChatScreen, _words: str) -> None:
    await chat.ask(LanguageServers(chat.room))


async def _rename(chat: ChatScreen, title: str) -> None:
    if chat.session is None or not title.strip():
        raise BadRequest("which name? /rename and the words, in a session")
    await chat.room.rename(chat.session.id, title.strip())


async def _free(chat: ChatScreen, _words: str) -> None:
    """Allow everything in this workspace after a yes; asking again needs none."""
    is_free = chat.desk.is_free
    text = (
        "Every tool of every session in this workspace then runs without a question, also for the others who are here. "
        "Deny rules still hold."
    )
    if not is_free and not await chat.ask(Confirm("Allow everything?", text, yes="yes, ask no more")):
        return
    await chat.room.call("POST", "/permissions/skip", Skip(skip=not is_free))
    await chat.desk.learn()


async def _leave(chat: ChatScreen, words: str) -> None:
    """Typed in full it needs no question."""
    if words == "now" or await chat.ask(Leave(chat.room if chat.is_inside else None)):
        chat.app.exit(0)


OPENING: tuple[Command, ...] = (
    Command(
        "sessions",
        "Sessions: search, open, fork, rename, export, delete",
        _sessions,
        "[id]",
        ("session", "switch", "resume"),
    ),
    Command("rewind", "Rewind: go back to before a prompt", _rewind, aliases=("back",)),
    Command("trash", "Deleted sessions: have one back", _trash),
    Command("models", "Models: choose one, effort, keys", _models, "[provider/model]", ("model",)),
    Command("queue", "What waits: change, move, take back", _queue),
    Command("changes", "Changed files: look, undo, redo", _changes, aliases=("undo", "redo", "diff")),
    Command("jobs", "Background jobs: follow, end", _jobs),
    Command("people", "Who is here", _people, aliases=("who",)),
    Command("cost", "What it cost", _cost, aliases=("usage",)),
    Command("notices", "Past notices", _notices),
    Command("rename", "Rename this session", _rename, "<title>"),
    Command("trust", "What this project wants", _trust),
    Command("mcp", "Tool servers: state, login, accept", _mcp),
    Command("lsp", "Language servers", _lsp),
    Command("onboarding", "Choose the first model", _onboarding, aliases=("setup",)),
    Command("free", "Allow everything, or ask again", _free, aliases=("yolo",)),
    Command("leave", "Leave; the turn goes on", _leave, aliases=("exit", "quit")),
)
