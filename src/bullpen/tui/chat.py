"""The main screen: conversations in tabs, the editor, and what stands beside them.

It holds no state of its own beyond which tabs are open: what there is to see is the room's, and widgets look at it when they are
told that something moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import ContentSwitcher
from textual.worker import Worker

from bullpen.client.shell import run_shell
from bullpen.client.updates import LinkChanged, Update, Updates
from bullpen.errors import AgentNotReady, BullpenError
from bullpen.present.custom import Prepared
from bullpen.present.failure import one_line
from bullpen.present.sessions import deleted_line, find_session
from bullpen.schema.asks import PermissionRequest, QuestionBatch
from bullpen.schema.events import (
    Event,
    MessageDelta,
    Resync,
    RunComplete,
    RunWaiting,
)
from bullpen.schema.jobs import CommandOutput
from bullpen.schema.message import Message
from bullpen.schema.session import Session
from bullpen.tui import keymap, preferences, themes
from bullpen.tui.commands import run_command
from bullpen.tui.dialogs.desk import AsksRow, Desk
from bullpen.tui.dialogs.dialog import Dialog
from bullpen.tui.editor.editor import Editor
from bullpen.tui.editor.messages import CommandTyped, Noticed, ShellTyped, Submitted
from bullpen.tui.heading import Heading
from bullpen.tui.outside import Outside
from bullpen.tui.panel import Panel
from bullpen.tui.preferences import Preferences
from bullpen.tui.sidebar import Sidebar
from bullpen.tui.status import Kind, Status
from bullpen.tui.tabs import Tabs
from bullpen.tui.transcript.view import Transcript

if TYPE_CHECKING:
    from bullpen.client.workspace import Room
    from bullpen.tui.app import Wish

T = TypeVar("T")

WIDE = 120
"""From this many columns on there is room for the sidebar."""


LATE_S = 20.0
"""The server says something every 15 s, if only that it lives."""

MANY = 500
"""So many events that nobody has drawn yet are a screen that is behind."""


class ChatScreen(Screen[None]):
    """One person's place in a workspace."""

    BINDINGS = keymap.bindings(keymap.KEYS)

    def __init__(self, wish: Wish, own: Preferences, outside: Outside) -> None:
        super().__init__()
        self.outside = outside
        self.preferences = own
        self.notices: list[tuple[Kind, str]] = []
        self._wish = wish
        self._room: Room | None = None
        self._updates: Updates | None = None
        self._wants_sidebar = own.sidebar
        self.desk = Desk(self)
        self._shells = 0
        """Commands of this person that the shell is running."""

    # What there is on it

    def compose(self) -> ComposeResult:
        yield Heading()
        yield Tabs()
        with Horizontal(id="middle"):
            with Vertical(id="talk"):
                with ContentSwitcher(id="transcripts"):
                    yield Transcript("", self.preferences)
                yield Panel()
                yield AsksRow()
                yield Editor(self.preferences)
            yield Sidebar()
        yield Status()

    @property
    def room(self) -> Room:
        """The room; there is one from `enter` on, and nothing that needs it can be reached before."""
        assert self._room is not None
        return self._room

    @property
    def host(self) -> str | None:
        """Where the server was said to be; None where it is found by itself."""
        return self._wish.host

    @property
    def is_inside(self) -> bool:
        """Whether there is a room yet."""
        return self._room is not None

    @property
    def editor(self) -> Editor:
        return self.query_one(Editor)

    @property
    def panel(self) -> Panel:
        return self.query_one(Panel)

    @property
    def sidebar(self) -> Sidebar:
        return self.query_one(Sidebar)

    @property
    def status(self) -> Status:
        return self.query_one(Status)

    @property
    def tabs(self) -> Tabs:
        return self.query_one(Tabs)

    @property
    def transcript(self) -> Transcript:
        """The conversation one looks at."""
        switcher = self.query_one("#transcripts", ContentSwitcher)
        return self.query_one(f"#{switcher.current}", Transcript)

    @property
    def session(self) -> Session | None:
        """The session one is in, if there is one yet."""
        return self.room.session(self.room.current_session) if self._room else None

    def on_mount(self) -> None:
        self.query_one("#transcripts", ContentSwitcher).current = self.query(Transcript).first().id
        self.status.help = "  ".join(f"{k.keys.split(',')[0]} {k.words}" for k in keymap.KEYS if k.footer)
        self.editor.focus()
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def toggle_sidebar(self) -> None:
        self._wants_sidebar = not self._wants_sidebar
        self._lay_out()

    def _lay_out(self) -> None:
        self.sidebar.display = self._wants_sidebar and self.size.width >= WIDE
        self.query_one(Heading).display = not self.sidebar.display
        if self._room is not None:
            self.look()

    def notice(self, text: str, kind: Kind = "info") -> None:
        """Tell the person something, in the last row; it can be read again."""
        self.notices.append((kind, text))
        if self.is_mounted:
            self.status.show(text, kind)

    # The room

    async def enter(self, room: Room, updates: Updates) -> None:
        """Show what there is: the session that was asked for, else an empty page."""
        self._room = room
        self._updates = updates
        self.desk.is_free = room.workspace.yolo
        self._look_at_link()
        self.set_interval(1, self._look_at_link)
        self.editor.attach(room)
        self.panel.attach(room)
        self.sidebar.attach(room)
        await self.attempt(self._follow_options())
        self.transcript.attach(room)
        wanted = find_session(room, self._wish.session) if self._wish.session else None
        if wanted is None and self._wish.newest and room.sessions:
            wanted = room.sessions[0]
        if wanted is not None:
            await self.open(wanted.id)
        else:
            self.editor.enter("")
            self.look()
        _: Worker[None] = self.run_worker(self._learn)

    async def _learn(self) -> None:
        """What no snapshot tells: whether there is a model at all."""
        with suppress(BullpenError):
            if not (await self.room.agent()).is_ready:
                await self.do("onboarding")

    async def _follow_options(self) -> None:
        """What this person left open may stand in the configuration."""
        options = (await self.room.config()).get("options")
        told = options.get("tui") if isinstance(options, dict) else None
        self.preferences = preferences.filled(self.preferences, told if isinstance(told, dict) else {})
        self.app.theme = themes.chosen(self.preferences.theme).name
        self._wants_sidebar = self.preferences.sidebar
        self._lay_out()

    def take(self, update: Update) -> None:
        """Something moved: let those look who show it."""
        if isinstance(update, LinkChanged):
            self._take_link(update)
            return
        match update.payload:
            case (
                Message(id=message_id, session_id=session_id)
                | MessageDelta(message_id=message_id, session_id=session_id)
            ):
                if (shown := self._shown(session_id)) is not None:
                    shown.changed(message_id)
                if (sender := self._shown(self._sender_of(session_id))) is not None:
                    sender.child_changed(session_id)
            case CommandOutput() as output:
                if (shown := self._shown(output.session_id)) is not None:
                    shown.output(output, is_over=update.action == "deleted")
            case RunWaiting() as waiting:
                if (shown := self._shown(waiting.session_id)) is not None:
                    shown.waiting(None if update.action == "deleted" else waiting)
            case Session() as session if update.action == "deleted":
                back = "" if session.parent_session_id else ": /trash has it back"
                self.run_worker(self._leave_deleted(session.id, deleted_line(self.room, session) + back))
                self._take_beside(update)
            case Resync():
                self._load()
                for transcript in self.query(Transcript):
                    if transcript.session_id and self.room.session(transcript.session_id) is None:
                        told = "a session that was open here was deleted: /trash may have it"
                        self.run_worker(self._leave_deleted(transcript.session_id, told))
            case _:
                self._take_beside(update)

    def _take_beside(self, event: Event) -> None:
        """What concerns the rooms beside the conversation."""
        if isinstance(event.payload, RunComplete) and event.payload.error and not event.payload.cancelled:
            self.notice(event.payload.error, "error")
        if words := calling(event, self.room):
            self.outside.call(words)
        self.desk.take(event)
        for screen in self.app.screen_stack:
            if isinstance(screen, Dialog):
                screen.moved(event)
        self.sidebar.take(event)
        self.look()

    def _take_link(self, changed: LinkChanged) -> None:
        self._look_at_link()
        if changed.state == "reconnecting":
            self.notice(f"link lost, reconnecting: {changed.reason}", "warning")
        else:
            self._load()
            self.notice("connected again")

    def _load(self) -> None:
        """Have anew what events may have been missed of."""
        for transcript in self.query(Transcript):
            transcript.load()
        _: Worker[None] = self.run_worker(self.desk.learn, exclusive=True, group="free")
        self.look()

    def _look_at_link(self) -> None:
        """The badge says what is so: behind is a stream that missed its heartbeat, or more than can be drawn in time."""
        assert self._updates is not None
        late = self.room.quiet_s > LATE_S or self._updates.unread > MANY
        self.status.link = "offline" if not self.room.is_connected else "behind" if late else "connected"

    def on_sidebar_fetched(self) -> None:
        self.status.people = len(self.sidebar.facts.people)
        self.look()

    def look(self) -> None:
        """Look at everything that is small anew."""
        self.tabs.look(self.room)
        for transcript in self.query(Transcript):
            transcript.look()
        self.panel.look()
        self.sidebar.look()
        self.query_one(Heading).look(self.room, self.sidebar.facts)
        self.editor.look()
        self.desk.look()

    def on_screen_resume(self) -> None:
        """What covered the conversation has gone."""
        if self._room is not None:
            self.desk.look()

    def _shown(self, session_id: str) -> Transcript | None:
        """The conversation of a session, if it is open in a tab."""
        # Asked for every piece of a growing text, so without a walk through all widgets.
        for each in self.query_one("#transcripts", ContentSwitcher).children:
            if isinstance(each, Transcript) and each.session_id == session_id:
                return each
        return None

    def _sender_of(self, session_id: str) -> str:
        """The session that sent a sub-agent, or nothing that is shown."""
        session = self.room.session(session_id)
        return session.parent_session_id if session and session.parent_session_id else "-"

    # Sessions and tabs

    async def open(self, session_id: str) -> None:
        """Go into a session, in its tab or in a new one."""
        shown = self._shown(session_id)
        if shown is None:
            await self.room.load(session_id)
            shown = Transcript(session_id, self.preferences)
            await self.query_one("#transcripts", ContentSwitcher).mount(shown)
            shown.attach(self.room)
            self.tabs.add(session_id)
        self.query_one("#transcripts", ContentSwitcher).current = shown.id
        # Before the server is told: what is typed from now on is meant for this session.
        self.editor.enter(session_id)
        await self.room.open(session_id)
        self.sidebar.fetch()
        self.look()

    async def open_new(self, title: str = "") -> None:
        """Make a session and go into it."""
        session = await self.room.new_session(title or "New Session")
        await self.open(session.id)

    async def step_tab(self, step: int) -> None:
        """Go to another tab, round and round."""
        if following := self.tabs.beside(self.room.current_session, step):
            await self.open(following)

    async def close_tab(self) -> None:
        """Close the tab one looks at; its session goes on."""
        gone = self._shown(self.room.current_session)
        following = self.tabs.close(self.room.current_session)
        if gone is not None and following:
            await self.open(following)
            await gone.remove()

    async def _leave_deleted(self, session_id: str, told: str) -> None:
        """Somebody deleted a session: its tab goes, and who looked at it is taken to the one beside it."""
        gone = self._shown(session_id)
        if gone is None:
            return
        following = self.tabs.drop(session_id)
        if session_id == self.room.current_session:
            # Also to the empty page, which is always there.
            await self.attempt(self.open(following))
        await gone.remove()
        self.look()
        self.notice(told, "warning")

    # What is done

    async def action_do(self, command_id: str) -> None:
        """Do the command of that id, for as long as it takes. A dialog that it opens is there for the next key."""
        self.run_worker(self.do(command_id))
        await asyncio.sleep(0)

    async def do(self, command_id: str, words: str = "") -> None:
        """Do the command of that name; what the server says against it is a notice."""
        if self._room is None and command_id != "leave":
            return
        await self.attempt(run_command(self, command_id, words))

    async def ask(self, dialog: Dialog[T]) -> T | None:
        """Open a dialog; what was decided in it, None where nothing was. Only within a command: keys have to be free meanwhile."""
        return await self.app.push_screen(dialog, wait_for_dismiss=True)

    async def say(self, prepared: Prepared) -> None:
        """Send a prompt that was not typed."""
        await self._send(Submitted(prepared.text, prepared.attachments))

    async def attempt(self, doing: Awaitable[None]) -> bool:
        """Do it; whether it went well. What was said against it is a notice, and the person stays."""
        try:
            await doing
        except BullpenError as exc:
            unready = isinstance(exc, AgentNotReady)
            self.notice("no model is chosen yet: Ctrl+L lists them" if unready else one_line(exc), "error")
            return False
        return True

    async def cancel(self) -> None:
        """Stop the turn of this session, and say what that dropped."""
        if self.session is None or not (self.session.is_busy or self._shells):
            return
        dropped = await self.room.cancel()
        also = f", and dropped {len(dropped)} that waited" if dropped else ""
        self.notice(f"stopped{also}")

    async def on_tabs_picked(self, picked: Tabs.Picked) -> None:
        await self.attempt(self.open(picked.session_id))

    # What the conversation asks for

    async def on_transcript_opened(self, opened: Transcript.Opened) -> None:
        await self.attempt(self.open(opened.session_id))

    def on_transcript_noticed(self, noticed: Transcript.Noticed) -> None:
        self.notice(noticed.words)

    async def on_transcript_woken(self) -> None:
        await self.attempt(self._wake())

    def on_transcript_left(self) -> None:
        self.editor.focus()

    def on_text_selected(self) -> None:
        self.transcript.copy_selection()

    async def _wake(self) -> None:
        woken = await self.room.wake()
        self.notice("asking again" if woken else "nothing waits for the model's host")

    async def on_editor_submitted(self, submitted: Submitted) -> None:
        """Send a prompt, for as long as it takes."""
        self.run_worker(self._send(submitted))

    async def _send(self, submitted: Submitted) -> None:
        async def send() -> None:
            if self.session is None:
                await self.open_new()
            await self.room.prompt(submitted.text, attachments=submitted.attachments, when=submitted.when)

        if not await self.attempt(send()):
            self.editor.give_back(submitted)

    def on_editor_noticed(self, noticed: Noticed) -> None:
        self.notice(noticed.text, noticed.kind)

    def on_editor_command_typed(self, typed: CommandTyped) -> None:
        self.run_worker(self.do(typed.name, typed.words))

    def on_editor_shell_typed(self, typed: ShellTyped) -> None:
        """Run a person's own command, for as long as it takes."""
        self.run_worker(self._run_shell(typed.command))

    async def _run_shell(self, command: str) -> None:
        async def run() -> None:
            if self.session is None:
                await self.open_new()
            await run_shell(self.room, command)

        self._shells += 1
        await self.attempt(run())
        self._shells -= 1

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key that the editor means for its list is not a command while that is open."""
        return action != "do" or parameters[0] not in self.editor.taken


def calling(event: Event, room: Room) -> str:
    """The words with which a person who looks elsewhere is called, if it is worth it."""
    match event.payload:
        case PermissionRequest(tool_name=tool, session_id=session_id):
            what = f"{tool} asks for permission"
        case QuestionBatch(session_id=session_id):
            what = "the agent has a question"
        case RunComplete(session_id=session_id, error=error, cancelled=cancelled):
            what = "failed" if error else "stopped" if cancelled else "done"
        case _:
            return ""
    session = room.session(session_id)
    return f"{what}: {session.title}" if session and not session.parent_session_id else ""
