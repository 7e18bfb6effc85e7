"""The line-mode client at work: what happens is printed, what is typed is sent.

Everything printed about messages comes from the room's mirror through the `Transcript`, so lost links and
reloads need no care here. Events only say when to look.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from bullpen.cli.asking import Answers, permission_reply, permission_text, question_reply
from bullpen.cli.inert import inert_line
from bullpen.cli.main import one_line
from bullpen.cli.models import choices, make_ready, pick
from bullpen.cli.sessions import find_session
from bullpen.cli.terminal import End, Interrupt, Line, Terminal, open_terminal
from bullpen.cli.transcript import Transcript
from bullpen.client.link import LinkChanged, Update, Updates
from bullpen.client.mirror import Ask
from bullpen.client.workspace import Room, attach
from bullpen.errors import AgentNotReady, BullpenError
from bullpen.schema.asks import (
    PermissionNotification,
    PermissionRequest,
    QuestionBatch,
    QuestionBatchNotification,
)
from bullpen.schema.events import Event, MessageDelta, QueueChanged, Resync, RunComplete
from bullpen.schema.message import Message
from bullpen.schema.session import Session

PROMPT = "› "
RECENT_MESSAGES = 12
"""How much of a session is printed on entering it; /history prints the rest."""

TWICE_S = 2.0
"""Two Ctrl-C within this time mean: leave."""

HELP = """\
  text            a prompt for the agent; while it works, the prompt waits its turn
  1, 2, …         answers the ask that is shown
  /sessions       list the sessions            /switch N      enter session N of that list
  /new [title]    start a new session          /history       print this session from its beginning
  /queue          list the waiting prompts     /drop N        take waiting prompt N back
  /cancel         cancel the running turn      /show          print the open ask in full
  /model [name]   list or choose models        /skip          answer a question with nothing
  /who            who is attached              /quit          leave (also Ctrl-D; the turn goes on)
  //text          a prompt that begins with a slash
  Ctrl-C cancels the running turn, twice leaves."""


async def chat(path: str, *, host: str | None, session: str, name: str, choose_model: bool) -> int:
    """Attach to the workspace at `path` and stay until the person leaves."""
    async with attach(path, host=host, name=name) as room:
        wanted = find_session(room, session) if session else None
        updates = room.updates()
        async with open_terminal(PROMPT) as terminal:
            client = Chat(room, terminal)
            await client.begin(wanted, choose_model=choose_model)
            await client.run(updates)
    return 0


class Chat:
    """One person at one terminal in one workspace."""

    def __init__(self, room: Room, terminal: Terminal) -> None:
        self._room = room
        self._terminal = terminal
        self._transcript = Transcript()
        self._listed: list[Session] = []
        self._shown_ask = ""
        self._answers: Answers | None = None
        self._mine: list[str] = []
        self._authors: dict[str, str] = {}
        self._interrupted_at = -TWICE_S
        self._is_choosing: list[tuple[str, str]] = []

    # Arriving

    async def begin(self, wanted: Session | None, *, choose_model: bool) -> None:
        """Say where we are, and enter the session that was asked for, else the last used one."""
        room = self._room
        others = [c.name or c.client_id[:8] for c in await self._clients() if c.client_id != room.client_id]
        also = f", with {', '.join(map(inert_line, others))}" if others else ""
        self._note(f"attached to {inert_line(room.workspace.path)} as {inert_line(room.name)}{also} (/help)")
        self._warn_of_untrusted()
        session = wanted or (room.sessions[0] if room.sessions else None)
        if session:
            await self._enter(session)
        agent = await room.agent()
        if agent.is_ready:
            self._note(f"model: {inert_line(agent.model_cfg.provider)}/{inert_line(agent.model_cfg.model)}")
        elif choose_model:
            await self._offer_models("no model is configured yet; choose one by number:")
        else:
            self._note("no model is configured: /model lists what can be chosen")
        self._show_ask()

    def _warn_of_untrusted(self) -> None:
        held = self._room.workspace.untrusted_settings
        if held:
            self._note(f"not trusted, so not in force: {', '.join(map(inert_line, held))}")

    async def _enter(self, session: Session) -> None:
        self._transcript = Transcript()
        messages = await self._room.open(session.id)
        self._terminal.line(f"— session “{inert_line(session.title) or 'untitled'}” {session.id[:8]} —")
        earlier = max(len(messages) - RECENT_MESSAGES, 0)
        if earlier:
            self._note(f"{earlier} earlier messages: /history prints them")
        for message in messages[:earlier]:
            self._transcript.pass_over(message)
        for message in messages[earlier:]:
            self._show(message)

    # What happens

    async def run(self, updates: Updates) -> None:
        """Print and send until the person leaves. Raises what ended the room for good."""
        failure: BullpenError | None = None
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                nonlocal failure
                try:
                    async for update in updates:
                        await self._take_update(update)
                except BullpenError as exc:
                    failure = exc
                    tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            await self._read_lines(tasks)
            tasks.cancel_scope.cancel()
        if failure:
            raise failure

    async def _take_update(self, update: Update) -> None:
        if isinstance(update, LinkChanged):
            self._show_link(update)
            return
        match update.payload:
            case Message() | MessageDelta() as about:
                message_id = about.id if isinstance(about, Message) else about.message_id
                self._show_by_id(about.session_id, message_id)
            case Session() as session:
                await self._take_session(update, session)
            case PermissionRequest() | QuestionBatch():
                self._show_ask()
            case PermissionNotification(granted=granted, denied=denied, answered_by=by) if granted or denied:
                self._close_ask("allowed" if granted else "denied", by)
            case QuestionBatchNotification(answered_by=by):
                self._close_ask("answered", by)
            case QueueChanged(session_id=session_id, prompts=prompts):
                self._authors.update({p.text: p.author for p in prompts if p.author})
                if session_id == self._room.current_session and prompts:
                    self._note(f"{len(prompts)} waiting (/queue)")
            case RunComplete() as end:
                self._show_end(end)
            case Resync():
                self._show_all()
                self._show_ask()
            case _:
                pass

    def _show_link(self, change: LinkChanged) -> None:
        if change.state == "reconnecting":
            self._note(f"link lost ({inert_line(change.reason)}); reconnecting …")
        else:
            # What was missed comes as events, in order.
            self._note("reconnected" + (" (the workspace was opened anew)" if change.recreated else ""))

    def _show_by_id(self, session_id: str, message_id: str) -> None:
        message = self._room.message(session_id, message_id)
        if message and session_id == self._room.current_session:
            self._show(message)
        elif message and self._is_child(session_id):
            self._show_child(message)

    def _is_child(self, session_id: str) -> bool:
        session = self._room.session(session_id)
        return bool(
            session and session.parent_session_id and session.parent_session_id == self._room.current_session
        )

    def _show_all(self) -> None:
        for message in self._room.messages(self._room.current_session):
            self._show(message)

    def _show(self, message: Message) -> None:
        author = self._author(message) if message.role == "user" else ""
        self._terminal.write(self._transcript.show(message, author=author, width=self._terminal.width))

    def _show_child(self, message: Message) -> None:
        """Of a sub-agent only its tool calls are shown, set in."""
        for call in message.tool_calls:
            if call.finished and call.id not in self._authors:
                self._authors[call.id] = ""
                self._note(f"  ↳ {inert_line(call.name)}")

    def _author(self, message: Message) -> str:
        """Who sent a prompt, as far as it is known."""
        text = message.text
        named = getattr(message, "author", "") or self._authors.get(text, "")
        if text in self._mine and named in {"", self._room.name, self._room.client_id}:
            self._mine.remove(text)
            return "you"
        return named or "someone"

    def _show_end(self, end: RunComplete) -> None:
        if end.session_id == self._room.current_session:
            if end.error and not end.cancelled and not end.message_id:
                self._note(f"failed: {inert_line(end.error)}")
            return
        session = self._room.session(end.session_id)
        if session and not session.parent_session_id:
            outcome = "cancelled" if end.cancelled else "failed" if end.error else "done"
            self._note(f"“{inert_line(session.title)}” is {outcome} (/sessions, /switch)")

    async def _take_session(self, event: Event, session: Session) -> None:
        if event.action == "created" and not session.parent_session_id and not self._room.current_session:
            # Somebody else began while nobody here had: that is what we came for.
            await self._enter(session)
        elif event.action == "deleted" and session.id == self._room.current_session:
            self._note("this session was deleted; the next prompt starts a new one")
            await self._room.open("")

    # Asks

    def _ask(self) -> Ask | None:
        """The ask to answer: the oldest of this session, else the oldest of any."""
        asks = self._room.asks
        here = [ask for ask in asks if ask.session_id == self._room.current_session]
        return next(iter(here or asks), None)

    def _show_ask(self, *, whole: bool = False) -> None:
        ask = self._ask()
        if ask is None:
            self._shown_ask, self._answers = "", None
            return
        if ask.id == self._shown_ask and not whole:
            return
        session = self._room.session(ask.session_id)
        elsewhere = session.title if session and ask.session_id != self._room.current_session else ""
        self._shown_ask = ask.id
        self._transcript.broke_line()
        if isinstance(ask, PermissionRequest):
            self._answers = None
            self._terminal.line(permission_text(ask, session=elsewhere, whole=whole))
        else:
            if self._answers is None or self._answers.batch.id != ask.id:
                self._answers = Answers(ask)
            self._terminal.line(self._answers.text(elsewhere))

    def _close_ask(self, how: str, by: str) -> None:
        if self._shown_ask and self._shown_ask not in {ask.id for ask in self._room.asks}:
            me = {self._room.name, self._room.client_id}
            self._note(f"{how}{'' if not by or by in me else f' by {inert_line(by)}'}")
            self._shown_ask, self._answers = "", None
            self._show_ask()

    async def _answer(self, text: str) -> bool:
        """Take a typed line as an answer; whether it was one."""
        ask = self._ask()
        if ask is None or ask.id != self._shown_ask:
            return False
        if isinstance(ask, PermissionRequest):
            reply = permission_reply(text)
            if reply is None:
                return False
            counted = await self._room.grant(ask, reply.action, reason=reply.reason)
            if counted:
                self._note("denied" if reply.action == "deny" else "allowed")
        else:
            answers = self._answers
            question = answers.question if answers else None
            response = question_reply(question, text) if question else None
            if answers is None or response is None:
                self._note("that is no answer to the question; /skip answers none")
                return True
            answers.responses.append(response)
            if answers.question is not None:
                self._terminal.line(answers.text())
                return True
            counted = await self._room.answer(ask, answers.responses)
        if not counted:
            self._note("somebody else was quicker")
        if self._shown_ask == ask.id:
            self._shown_ask = ""
        self._show_ask()
        return True

    # What is typed

    async def _read_lines(self, tasks: TaskGroup) -> None:
        while True:
            match await self._terminal.next():
                case End():
                    return
                case Interrupt(dropped=dropped):
                    if await self._interrupt(dropped=dropped):
                        return
                case Line(text=text):
                    if await self._take_line(text, tasks):
                        return

    async def _interrupt(self, *, dropped: bool) -> bool:
        """Cancel the turn; whether the person wants to leave."""
        now = time.monotonic()
        again, self._interrupted_at = now - self._interrupted_at < TWICE_S, now
        if again:
            return True
        if dropped:
            return False
        session = self._room.session(self._room.current_session)
        if session and session.is_busy:
            await self._try(self._cancel)
        else:
            self._note("nothing is running; Ctrl-C again or Ctrl-D leaves")
        return False

    async def _take_line(self, text: str, tasks: TaskGroup) -> bool:
        """Do what a line says; whether the person wants to leave."""
        text = text.strip()
        if not text:
            return False
        if self._is_choosing and await self._choose(text):
            return False
        if text.startswith("/") and not text.startswith("//"):
            return await self._command(text)
        if await self._try(lambda: self._answer(text)):
            return False
        text = text.removeprefix("/") if text.startswith("//") else text
        tasks.start_soon(self._send, text)
        return False

    async def _send(self, text: str) -> None:
        """Send a prompt, for as long as it takes. What is printed of it comes back as an event."""
        self._mine.append(text)
        if not self._room.is_connected:
            self._note("kept until the link is back")
        try:
            await self._room.prompt(text)
        except AgentNotReady:
            self._mine.remove(text)
            self._note("not sent, since no model is configured: /model lists what can be chosen")
        except BullpenError as exc:
            self._mine.remove(text)
            self._note(f"not sent: {one_line(exc)}")

    async def _command(self, line: str) -> bool:
        name, _, rest = line[1:].partition(" ")
        rest = rest.strip()
        if name in {"quit", "exit", "q"}:
            return True
        commands: dict[str, Callable[[], Awaitable[object]]] = {
            "help": self._help,
            "sessions": self._sessions,
            "switch": lambda: self._switch(rest),
            "new": lambda: self._new(rest),
            "history": self._history,
            "queue": self._queue,
            "drop": lambda: self._drop(rest),
            "cancel": self._cancel,
            "show": self._show_whole_ask,
            "skip": self._skip,
            "model": lambda: self._model(rest),
            "who": self._who,
        }
        found = commands.get(name)
        if found is None:
            self._note(
                f"there is no /{inert_line(name)}; /help lists what there is (//… sends it as a prompt)"
            )
        else:
            await self._try(found)
        return False

    async def _help(self) -> None:
        self._block(HELP)

    async def _sessions(self) -> None:
        self._listed = self._room.sessions
        rows = []
        for number, session in enumerate(self._listed, 1):
            marks = [
                "here" if session.id == self._room.current_session else "",
                "busy" if session.is_busy else "",
                f"{session.attached_clients} in it" if session.attached_clients else "",
            ]
            told = ", ".join(mark for mark in marks if mark)
            rows.append(
                f"  {number:>2} {inert_line(session.title) or 'untitled'}  {session.id[:8]}  {told}".rstrip()
            )
        self._block("\n".join(rows) or "  no sessions yet: the first prompt starts one")

    async def _switch(self, wanted: str) -> None:
        listed = self._listed or self._room.sessions
        if wanted.isdecimal() and 1 <= int(wanted) <= len(listed):
            session = listed[int(wanted) - 1]
        elif wanted and not wanted.isdecimal():
            session = find_session(self._room, wanted)
        else:
            self._note("which one? /sessions numbers them")
            return
        await self._enter(session)
        self._shown_ask = ""
        self._show_ask()

    async def _new(self, title: str) -> None:
        self._transcript = Transcript()
        session = await self._room.new_session(title or "New Session")
        self._terminal.line(f"— new session {session.id[:8]} —")

    async def _history(self) -> None:
        self._transcript = Transcript()
        self._show_all()

    async def _queue(self) -> None:
        if not self._room.current_session:
            self._note("nothing waits")
            return
        waiting = await self._room.queue()
        rows = [
            f"  {number:>2} {inert_line(p.text)}" + (f"  ({inert_line(p.author)})" if p.author else "")
            for number, p in enumerate(waiting, 1)
        ]
        self._block("\n".join(rows) or "  nothing waits")

    async def _drop(self, wanted: str) -> None:
        waiting = await self._room.queue() if self._room.current_session else []
        if not wanted.isdecimal() or not 1 <= int(wanted) <= len(waiting):
            self._note("which one? /queue numbers them")
            return
        await self._room.withdraw(waiting[int(wanted) - 1].seq)

    async def _cancel(self) -> None:
        if not self._room.current_session:
            self._note("nothing is running")
            return
        dropped = await self._room.cancel()
        for text in dropped:
            self._note(f"dropped: {inert_line(text)}")

    async def _show_whole_ask(self) -> None:
        if self._ask() is None:
            self._note("nothing is asked")
        self._show_ask(whole=True)

    async def _skip(self) -> None:
        ask = self._ask()
        if isinstance(ask, QuestionBatch):
            await self._room.decline(ask)
            self._shown_ask, self._answers = "", None
        else:
            self._note("no question is open")

    async def _model(self, wanted: str) -> None:
        if not wanted:
            await self._offer_models("models (choose by number):")
            return
        choice = pick(wanted, await choices(self._room))
        await make_ready(self._room, choice)
        self._note(f"model: {choice.name}, for everybody in this workspace")

    async def _offer_models(self, heading: str) -> None:
        found = await choices(self._room)
        self._is_choosing = [(c.provider, c.model) for c in found]
        rows = [f"  {number:>2} {inert_line(c.label)}  ({c.name})" for number, c in enumerate(found, 1)]
        hint = "  others: set the provider's key (OPENAI_API_KEY …) or write it into bullpen.json"
        self._block("\n".join([heading, *rows, hint]))

    async def _choose(self, text: str) -> bool:
        """Take a number as the choice of a model; whether it was one. Anything else ends the choosing."""
        offered, self._is_choosing = self._is_choosing, []
        if not text.isdecimal() or self._shown_ask:
            return False
        if not 1 <= int(text) <= len(offered):
            self._is_choosing = offered
            self._note(f"a number from 1 to {len(offered)}, please")
            return True
        provider, model = offered[int(text) - 1]
        await self._try(lambda: self._model(f"{provider}/{model}"))
        return True

    async def _who(self) -> None:
        rows = []
        for client in await self._clients():
            session = self._room.session(client.current_session)
            where = f"  in “{inert_line(session.title)}”" if session else ""
            me = " (you)" if client.client_id == self._room.client_id else ""
            rows.append(f"  {inert_line(client.name) or client.client_id[:8]}{me}{where}")
        self._block("\n".join(rows))

    async def _clients(self) -> list:  # type: ignore[type-arg]
        with suppress(BullpenError):
            return await self._room.clients()
        return []

    # Printing

    def _note(self, text: str) -> None:
        self._block(f"· {text}")

    def _block(self, text: str) -> None:
        self._transcript.broke_line()
        self._terminal.line(text)

    async def _try(self, action: Callable[[], Awaitable[object]]) -> object:
        """Do it; what the server says against it is printed, and the person stays."""
        try:
            return await action()
        except BullpenError as exc:
            self._note(one_line(exc))
            return True
