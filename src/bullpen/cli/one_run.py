"""One prompt from the command line, from sending it to its end.

Which messages belong to it: those after its own user message, until the completion that carries its run id. The
completion's text is the authority; what was not printed by then is printed from it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import stat
import sys
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TextIO, cast

import anyio
from anyio.abc import TaskGroup

from bullpen.client.mirror import Ask
from bullpen.client.updates import LinkChanged, Updates
from bullpen.client.workspace import Room, attach
from bullpen.errors import BadRequest, BullpenError, ServerUnreachable
from bullpen.plain.terminal import LineReader
from bullpen.present.asking import Answers, permission_reply, permission_text, question_reply
from bullpen.present.choosing import model_for_one_run
from bullpen.present.custom import Prepared, prepare
from bullpen.present.describe import describe_call, describe_hooks
from bullpen.present.inert import clock, cut, inert, inert_line
from bullpen.present.sessions import find_session
from bullpen.schema.asks import PermissionRequest, QuestionBatch
from bullpen.schema.events import (
    AgentEvent,
    Compacted,
    Event,
    HookDecided,
    MessageDelta,
    Resync,
    RunComplete,
    RunWaiting,
)
from bullpen.schema.message import Message
from bullpen.schema.wire import encode

INTERRUPTED = 130

DENIED = "User denied permission"
"""The result of a tool that was not allowed to act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the command line asked for."""

    prompt: str
    piped: str = ""
    session: str = ""
    go_on: bool = False
    model: str = ""
    permissions: str = "deny"
    as_json: bool = False
    quiet: bool = False


def gather(source: TextIO) -> str | None:
    """What is piped in, exactly; None when nothing is."""
    try:
        mode = os.fstat(source.fileno()).st_mode
    except (OSError, ValueError):
        return None
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
        return None
    if stat.S_ISSOCK(mode) and not select.select([source], [], [], 0)[0]:
        # Some programs start their children with a socket that never says anything.
        return None
    return source.read() or None


async def one_run(path: str, wish: Wish, *, host: str | None, name: str) -> int:
    """Send the prompt, print what comes of it; the answer is the exit status."""
    async with attach(path, host=host, name=name) as room:
        run = Run(room, wish, await _prepared(room, wish))
        session = await run.choose_session()
        async with model_for_one_run(room, session, wish.model, run.say):
            return await run.to_the_end()


async def _prepared(room: Room, wish: Wish) -> Prepared:
    """What is sent: what was piped in, and then the words, or what the command stands for that they name."""
    found = await prepare(room, wish.prompt) if wish.prompt.startswith("/") else None
    text, attachments = found or Prepared(wish.prompt)
    return Prepared("\n\n".join(filter(None, (wish.piped, text))), attachments)


class Run:
    """One prompt on its way."""

    def __init__(self, room: Room, wish: Wish, prepared: Prepared) -> None:
        self._room = room
        self._wish = wish
        self._run_id = str(uuid.uuid4())
        self._session = ""
        self._prepared = prepared
        self._text = prepared.text
        self._has_begun = False
        self._printed: dict[str, int] = {}
        self._told: set[str] = set()
        self._is_mid_line = False
        self._interrupts = 0
        self._seen: set[str] = set()
        self._lines = LineReader(0)
        self._asking = anyio.Lock()

    def say(self, text: str) -> None:
        """A note for the person, beside the answer."""
        if not self._wish.quiet:
            print(f"bullpen: {text}", file=sys.stderr, flush=True)

    async def to_the_end(self) -> int:
        """Send the prompt and follow its turn; the answer is the exit status."""
        self._seen = {m.id for m in self._room.messages(self._session)}
        updates = self._room.updates()
        status = 1
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_signals, tasks)
            try:
                await self._room.prompt(
                    self._prepared.text,
                    attachments=self._prepared.attachments,
                    session=self._session,
                    run_id=self._run_id,
                    permissions=cast('Literal["ask", "allow", "deny"]', self._wish.permissions),
                    interactive=self._wish.permissions == "ask",
                )
                self._text = self._room.text_of(self._run_id) or self._text
                self._print_json("run", {"session_id": self._session, "run_id": self._run_id})
                status = await self._follow(updates, tasks)
            except BrokenPipeError:
                # Nobody reads on: the work is not wanted any more.
                await self._cancel(tasks)
                raise
            tasks.cancel_scope.cancel()
        return INTERRUPTED if self._interrupts else status

    async def choose_session(self) -> str:
        """The session that was asked for, or a new one."""
        room, wish = self._room, self._wish
        if wish.session:
            self._session = find_session(room, wish.session).id
        elif wish.go_on:
            if not room.sessions:
                raise BadRequest("there is no session to continue here")
            self._session = room.sessions[0].id
        if self._session:
            await room.open(self._session)
        else:
            self._session = (await room.new_session("non-interactive")).id
        return self._session

    async def _follow(self, updates: Updates, tasks: TaskGroup) -> int:
        async for update in updates:
            if isinstance(update, LinkChanged):
                self.say("link lost, reconnecting …" if update.state == "reconnecting" else "reconnected")
                continue
            if self._wish.as_json and self._is_ours(update):
                self._print_json(update.kind, update.payload, update.id, update.action)
            match update.payload:
                case Message(id=message_id) | MessageDelta(message_id=message_id):
                    self._take_message(message_id)
                case PermissionRequest(session_id=session) | QuestionBatch(session_id=session) as ask:
                    if self._is_here(session) and self._wish.permissions == "ask":
                        tasks.start_soon(self._answer_in_turn, ask)
                case RunComplete() as done if self._run_id in {done.run_id, *done.run_ids}:
                    return self._end(done)
                case RunWaiting(session_id=session, reason=reason, until=until) if (
                    session == self._session and update.action != "deleted"
                ):
                    self.say(f"{cut(inert_line(reason), 200)}; asking again at {clock(until)}")
                case AgentEvent(type="aws_sso_auth", aws_sso_url=url) if url:
                    self.say(f"AWS asks for a login: open {inert_line(url)}")
                case HookDecided(session_id=session) as decided if session == self._session:
                    self.say(cut(describe_hooks(decided), 200))
                case Compacted(session_id=session) if session == self._session:
                    self.say("the conversation was summarised to make room")
                case Resync():
                    for message in self._room.messages(self._session):
                        self._take_message(message.id)
                    if lost := self._room.end_of(self._run_id):
                        return self._end(lost)
                case _:
                    pass
        return 1

    def _is_here(self, session_id: str) -> bool:
        """The run's session, or one of its sub-agents'."""
        session = self._room.session(session_id)
        return session_id == self._session or bool(session and session.parent_session_id == self._session)

    def _is_ours(self, event: Event) -> bool:
        return getattr(event.payload, "session_id", self._session) == self._session

    # Printing

    def _take_message(self, message_id: str) -> None:
        message = self._room.message(self._session, message_id)
        if message is None or message_id in self._seen or message.is_summary_message:
            return
        if message.role == "user" and message.text == self._text:
            self._has_begun = True
        elif message.role == "assistant" and self._has_begun:
            self._print_text(message_id, message.text)
            for call in message.tool_calls:
                if call.finished and call.id not in self._told:
                    self._told.add(call.id)
                    self.say(cut(describe_call(call), 100))
        elif message.role == "tool" and self._has_begun:
            self._tell_denied(message)

    def _print_text(self, message_id: str, text: str) -> None:
        if self._wish.as_json:
            return
        printed = self._printed.get(message_id, 0)
        new = text[printed:] if printed else text.lstrip()
        if not new:
            return
        gap = "\n\n" if not printed and self._is_mid_line else "\n" if not printed and self._printed else ""
        self._printed[message_id] = len(text)
        # A pipe gets the very text; a terminal must not obey it.
        out = gap + (inert(new) if sys.stdout.isatty() else new)
        sys.stdout.write(out)
        sys.stdout.flush()
        self._is_mid_line = not out.endswith("\n")

    def _print_json(self, kind: str, payload: Any, event_id: str = "", action: str = "created") -> None:
        if self._wish.as_json:
            line = {"id": event_id, "type": kind, "payload": {"type": action, "payload": payload}}
            text = encode(line).decode()
            # A terminal must not obey what stands in it; escaped it is the same JSON.
            sys.stdout.write((json.dumps(json.loads(text)) if sys.stdout.isatty() else text) + "\n")
            sys.stdout.flush()

    def _tell_denied(self, message: Message) -> None:
        denied = any(r.is_error and r.content == DENIED for r in message.tool_results)
        if denied and "denied" not in self._told and self._wish.permissions == "deny":
            self._told.add("denied")
            self.say("a tool was denied: --permissions allow lets tools act, --permissions ask asks you")

    def _end(self, done: RunComplete) -> int:
        if done.text and not done.error:
            self._print_text(done.message_id, done.text)
        if self._is_mid_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
        if done.cancelled:
            if not self._interrupts:
                self.say("the turn was cancelled by another client")
            return 1
        if done.error:
            print(f"bullpen: {inert_line(done.error)}", file=sys.stderr)
            return 1
        return 0

    # Asks

    async def _answer_in_turn(self, ask: Ask) -> None:
        """One ask at a time: there is one person and one line of input."""
        async with self._asking:
            if self._is_open(ask):
                with suppress(ServerUnreachable):
                    await self._answer(ask)

    async def _answer(self, ask: Ask) -> None:
        """Ask the person at the terminal; another client may be quicker."""
        if isinstance(ask, PermissionRequest):
            self._ask_person(permission_text(ask, whole=True))
            while self._is_open(ask):
                reply = permission_reply(await self._read_line())
                if reply is None:
                    self._ask_person("  one of the numbers above, please")
                    continue
                try:
                    await self._room.grant(ask, reply.action, reason=reply.reason, rule=reply.rule)
                    return
                except BadRequest as refused:
                    self._ask_person(f"  {inert_line(refused.message)}")
            return
        answers = Answers(ask)
        while (question := answers.following()) and self._is_open(ask):
            self._ask_person(answers.text())
            text = await self._read_line()
            if text.strip() == "/skip":
                await self._room.decline(ask)
                return
            response = question_reply(question, text)
            if response:
                answers.responses.append(response)
        if self._is_open(ask):
            await self._room.answer(ask, answers.responses)

    async def _read_line(self) -> str:
        """A line from the person; when there are no more, somebody else has to answer."""
        line = await self._lines.line()
        if line is None:
            await anyio.sleep_forever()
        return line or ""

    def _is_open(self, ask: Ask) -> bool:
        return ask.id in {a.id for a in self._room.asks}

    def _ask_person(self, text: str) -> None:
        gap = "\n" if self._is_mid_line and sys.stdout.isatty() else ""
        print(gap + text, file=sys.stderr, flush=True)

    # Ctrl-C

    async def _watch_signals(self, tasks: TaskGroup) -> None:
        with anyio.open_signal_receiver(signal.SIGINT) as signals:
            async for _ in signals:
                self._interrupts += 1
                if self._interrupts > 1:
                    tasks.cancel_scope.cancel()
                    return
                self.say("cancelling … (Ctrl-C again leaves at once)")
                tasks.start_soon(self._cancel, tasks)

    async def _cancel(self, tasks: TaskGroup) -> None:
        """Cancel the turn, whose end then ends us; when nobody can be told to, leave it."""
        try:
            await self._room.cancel(self._session)
        except BullpenError as exc:
            self.say(f"the turn could not be cancelled: {inert_line(exc.message)}")
            tasks.cancel_scope.cancel()
