"""One prompt from the command line, from sending it to its end; or somebody's run, followed to its end.

Which messages belong to it: those after its own user message, until the completion that carries its run id. The
completion's text is the authority; what was not printed by then is printed from it.
"""

from __future__ import annotations

import json
import signal
import sys
import uuid
from typing import Any, Literal

import anyio
import msgspec
from anyio.abc import TaskGroup

from bullpen.cli import answer_schema
from bullpen.cli.run_asks import Asking
from bullpen.cli.run_output import Output
from bullpen.cli.run_report import Reason, Report, reason_of
from bullpen.cli.wish import Wish
from bullpen.client.updates import LinkChanged, Updates
from bullpen.client.workspace import Room, attach
from bullpen.errors import BadRequest, BullpenError, RunNotFound
from bullpen.present.choosing import Wanted, for_one_run
from bullpen.present.custom import Prepared, prepare
from bullpen.present.describe import describe_call, describe_hooks
from bullpen.present.inert import clock, cut, inert_line
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
    RunSpent,
    RunWaiting,
)
from bullpen.schema.message import Message, ToolResult
from bullpen.schema.runs import Run

LEAVING_S = 5.0
"""How long a run whose time is up may take to be cancelled and to leave."""

DENIED = "User denied permission"
"""The result of a tool that a person did not allow."""


async def one_run(path: str, wish: Wish, report: Report, *, host: str | None, name: str) -> int:
    """Send the prompt, or find the run, and print what comes of it; the answer is the exit status."""
    with anyio.move_on_after(wish.timeout_s + LEAVING_S if wish.timeout_s else None):
        async with attach(path, host=host, name=name) as room:
            following = Following(room, wish, report)
            if wish.attach:
                return await following.join()
            if "\ufffd" in wish.piped:
                following.output.say("not all that was piped in is UTF-8: what is not is replaced")
            prepared = await _prepared(room, wish)
            session = await following.choose_session()
            wanted = Wanted(
                wish.model, wish.effort, wish.budget, wish.tools, wish.instructions, wish.steps, wish.detach
            )
            async with for_one_run(room, session, wanted, following.output.say):
                return await following.send(prepared)
    return report.end("timeout", "the time was up before the turn was over", "timeout")


async def _prepared(room: Room, wish: Wish) -> Prepared:
    """What is sent: what was piped in, and then the words, or what the command stands for that they name."""
    found = await prepare(room, wish.prompt) if wish.prompt.startswith("/") else None
    text, attachments = found or Prepared(wish.prompt)
    shape = answer_schema.instruction(wish.schema) if wish.schema is not None else ""
    return Prepared("\n\n".join(filter(None, (wish.piped, text, shape))), (*attachments, *wish.attachments))


class Following:
    """One run on its way."""

    def __init__(self, room: Room, wish: Wish, report: Report) -> None:
        self._room = room
        self._wish = wish
        self._report = report
        self.output = Output(as_json=wish.as_json, quiet=wish.quiet, streams=wish.schema is None)
        self._asking = Asking(room, lambda: self.output.is_mid_line)
        self._session = ""
        self._run_id = ""
        self._text = ""
        self._has_begun = False
        self._told: set[str] = set()
        self._seen: set[str] = set()
        self._broken: Reason | None = None

    # From the beginning to the end

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
        self._report.session_id = self._session
        return self._session

    async def send(self, prepared: Prepared) -> int:
        """Send the prompt, and again while the answer has not the shape that was asked for."""
        if self._wish.detach:
            await self._prompt(prepared)
            self.output.whole(f"{self._session} {self._run_id}")
            return self._report.end("accepted")
        for left in reversed(range(answer_schema.ASKED_AT_MOST)):
            updates = self._room.updates()
            self._seen = {m.id for m in self._room.messages(self._session)}
            done = await self._watched(updates, prepared)
            if self._wish.schema is None or done is None or done.error or done.cancelled:
                return self._end(done)
            try:
                self._report.output = answer_schema.fitting(done.text, self._wish.schema)
            except answer_schema.AnswerWrong as exc:
                if not left:
                    return self._fail("schema", f"the answer does not fit the schema: {exc}", "schema")
                self.output.say(f"the answer does not fit the schema, asking again: {inert_line(str(exc))}")
                prepared = Prepared(answer_schema.complaint(str(exc)))
                continue
            except answer_schema.SchemaWrong as exc:
                return self._fail("usage", f"the schema cannot be used: {exc}", "schema")
            self._report.has_output = True
            self.output.whole(json.dumps(self._report.output, ensure_ascii=False))
            return self._end(done)
        raise AssertionError("the last try has an end")

    async def join(self) -> int:
        """Follow somebody's run, from its beginning to its end."""
        updates = self._room.updates()
        found = await find_run(self._room, self._wish.attach)
        self._session, self._run_id, self._text = found.session_id, found.run_id, found.prompt
        self._report.session_id, self._report.run_id = self._session, self._run_id
        await self._room.open(self._session)
        now = await self._room.run(self._run_id)
        if now.state != "accepted":
            # It has begun: its own message is the last of those that read so.
            for message in reversed(messages := self._room.messages(self._session)):
                if message.role == "user" and message.text == self._text:
                    self._seen = {m.id for m in messages[: messages.index(message)]}
                    break
        else:
            self._seen = {m.id for m in self._room.messages(self._session)}
        self.output.event("run", {"session_id": self._session, "run_id": self._run_id})
        self._take_all()
        if now.end is not None:
            return self._end(self._noted(now.end))
        return self._end(await self._watched(updates, None))

    async def _prompt(self, prepared: Prepared) -> None:
        self._run_id = self._report.run_id = str(uuid.uuid4())
        self._text, self._has_begun = prepared.text, False
        await self._room.prompt(
            prepared.text,
            attachments=prepared.attachments,
            session=self._session,
            run_id=self._run_id,
            permissions=_PERMISSIONS[self._wish.on_ask],
            interactive=self._wish.on_ask in ("ask", "wait"),
        )
        self._text = self._room.text_of(self._run_id) or self._text
        self.output.event("run", {"session_id": self._session, "run_id": self._run_id})

    async def _watched(self, updates: Updates, prepared: Prepared | None) -> RunComplete | None:
        """Send the prompt if there is one, and follow; how it ended, or None when it was left before."""
        done: RunComplete | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_signals, tasks)
            try:
                if prepared is not None:
                    await self._prompt(prepared)
                # Not before: what is not accepted yet cannot be cancelled.
                tasks.start_soon(self._watch_clock, tasks)
                done = await self._follow(updates, tasks)
            except BrokenPipeError:
                # Nobody reads on: the work is not wanted any more.
                if not self._wish.attach:
                    await self._cancel(tasks)
                raise
            tasks.cancel_scope.cancel()
        return done

    async def _follow(self, updates: Updates, tasks: TaskGroup) -> RunComplete | None:
        async for update in updates:
            if isinstance(update, LinkChanged):
                lost = update.state == "reconnecting"
                self.output.say("link lost, reconnecting …" if lost else "reconnected")
                continue
            if self._is_ours(update):
                self.output.event(update.kind, update.payload, update.id, update.action)
            match update.payload:
                case Message(id=message_id) | MessageDelta(message_id=message_id):
                    self._take_message(message_id)
                case PermissionRequest(session_id=session) | QuestionBatch(session_id=session) as ask:
                    if self._is_here(session):
                        await self._take_ask(ask, tasks)
                case RunComplete() as done if self._run_id in {done.run_id, *done.run_ids}:
                    return self._noted(done)
                case RunWaiting(session_id=session, reason=reason, until=until) if (
                    session == self._session and update.action != "deleted"
                ):
                    self.output.say(f"{cut(inert_line(reason), 200)}; asking again at {clock(until)}")
                case AgentEvent(type="aws_sso_auth", aws_sso_url=url) if url:
                    self.output.say(f"AWS asks for a login: open {inert_line(url)}")
                case HookDecided(session_id=session) as decided if session == self._session:
                    self.output.say(cut(describe_hooks(decided), 200))
                case Compacted(session_id=session) if session == self._session:
                    self.output.say("the conversation was summarised to make room")
                case Resync():
                    self._take_all()
                    if lost_end := self._room.end_of(self._run_id):
                        return self._noted(lost_end)
                case _:
                    pass
        return None

    def _is_here(self, session_id: str) -> bool:
        """The run's session, or one of its sub-agents'."""
        session = self._room.session(session_id)
        return session_id == self._session or bool(session and session.parent_session_id == self._session)

    def _is_ours(self, event: Event) -> bool:
        return getattr(event.payload, "session_id", self._session) == self._session

    # What it says and does

    def _take_all(self) -> None:
        for message in self._room.messages(self._session):
            self._take_message(message.id)

    def _take_message(self, message_id: str) -> None:
        message = self._room.message(self._session, message_id)
        if message is None or message_id in self._seen or message.is_summary_message:
            return
        if message.role == "user" and message.text == self._text:
            self._has_begun = True
        elif message.role == "assistant" and self._has_begun:
            self._report.model = f"{message.provider}/{message.model}".strip("/")
            self.output.text(message_id, message.text)
            for call in message.tool_calls:
                if call.finished and call.id not in self._report.calls:
                    self._report.calls.add(call.id)
                    self.output.say(cut(describe_call(call), 100))
        elif message.role == "tool" and self._has_begun:
            self._tell_denied(message)

    def _tell_denied(self, message: Message) -> None:
        for result in message.tool_results:
            if is_denied(result):
                told = {"tool": result.name, "tool_call_id": result.tool_call_id, "reason": result.content}
                self._report.denied[result.tool_call_id] = told
        if self._report.denied and "denied" not in self._told and self._wish.on_ask == "deny":
            self._told.add("denied")
            self.output.say("a tool was denied: --on-ask allow lets tools act, --on-ask ask asks you")

    async def _take_ask(self, ask: PermissionRequest | QuestionBatch, tasks: TaskGroup) -> None:
        match self._wish.on_ask:
            case "ask":
                tasks.start_soon(self._asking.answer, ask)
            case "wait":
                what = ask.tool_name if isinstance(ask, PermissionRequest) else "a question"
                self.output.say(f"waiting for somebody to answer {inert_line(what)}: 'bullpen attach'")
            case "fail" if isinstance(ask, PermissionRequest) and self._has_begun:
                told = {"tool": ask.tool_name, "tool_call_id": ask.tool_call_id, "reason": ask.action}
                self._report.denied[ask.tool_call_id] = told
                self._report.error = f"{ask.tool_name} needs a permission to {ask.action} ({ask.path})"
                await self._break_off("permission", tasks)
            case _:
                pass

    # Ends

    def _noted(self, done: RunComplete) -> RunComplete:
        """What a completion says of the run, whatever comes after it."""
        if isinstance(done.spent, RunSpent):
            self._report.add_usage(msgspec.to_builtins(done.spent))
        self._report.text = done.text
        if done.text and not done.error:
            self.output.text(done.message_id, done.text)
        self.output.end_line()
        return done

    def _end(self, done: RunComplete | None) -> int:
        if self._broken is not None:
            if self._broken in ("interrupted", "terminated"):
                return self._report.end(self._broken)
            told = {"timeout": "the time was up before the turn was over", "permission": self._report.error}
            return self._fail(self._broken, told[self._broken], self._broken)
        if done is None:
            return self._fail("failed", "the run was lost", "error")
        if done.cancelled:
            self.output.say("the turn was cancelled by another client")
            return self._report.end("cancelled", "the turn was cancelled by another client", "cancelled")
        if done.error:
            return self._fail(reason_of(done.code), done.error, done.code or "error")
        return self._report.end("ok")

    def _fail(self, reason: Reason, error: str, code: str) -> int:
        print(f"bullpen: {inert_line(error)}", file=sys.stderr)
        return self._report.end(reason, error, code)

    async def _watch_signals(self, tasks: TaskGroup) -> None:
        """Ctrl-C cancels the turn, a second one leaves at once; whoever only follows just leaves."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                reason: Reason = "interrupted" if number == signal.SIGINT else "terminated"
                if self._broken is not None or self._wish.attach:
                    self._broken = self._broken or reason
                    tasks.cancel_scope.cancel()
                    return
                if reason == "interrupted":
                    self.output.say("cancelling … (Ctrl-C again leaves at once)")
                tasks.start_soon(self._break_off, reason, tasks)

    async def _watch_clock(self, tasks: TaskGroup) -> None:
        if self._wish.timeout_s:
            await anyio.sleep(max(0, self._wish.timeout_s - self._report.elapsed_s))
            await self._break_off("timeout", tasks)

    async def _break_off(self, reason: Reason, tasks: TaskGroup) -> None:
        """End the run for this reason, once. Its end then ends us."""
        if self._broken is not None:
            return
        self._broken = reason
        if self._wish.attach:
            tasks.cancel_scope.cancel()
        else:
            await self._cancel(tasks)

    async def _cancel(self, tasks: TaskGroup) -> None:
        """Cancel the turn; when nobody can be told to, leave it."""
        try:
            await self._room.cancel(self._session)
        except BullpenError as exc:
            self.output.say(f"the turn could not be cancelled: {inert_line(exc.message)}")
            tasks.cancel_scope.cancel()


_PERMISSIONS: dict[str, Literal["ask", "allow", "deny"]] = {
    "ask": "ask",
    "allow": "allow",
    "deny": "deny",
    "fail": "ask",
    "wait": "ask",
}
"""What the server is told: whether we or others answer, or end the run, is between us and them."""


def is_denied(result: ToolResult) -> bool:
    """Whether a tool was not allowed to act."""
    if not result.is_error:
        return False
    try:
        metadata: Any = json.loads(result.metadata or "{}")
    except ValueError:
        metadata = {}
    return result.content == DENIED or (isinstance(metadata, dict) and metadata.get("denied") is True)


async def find_run(room: Room, wanted: str) -> Run:
    """The run of that id, or what runs in the session of that id; the beginning of an id is enough. Raises `BadRequest`."""
    under_way = await room.runs()
    found = [run for run in under_way if run.run_id.startswith(wanted)] or [
        run for run in under_way if run.session_id.startswith(wanted)
    ][:1]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadRequest(f"several runs begin with {inert_line(wanted)}")
    try:
        return await room.run(wanted)
    except RunNotFound as exc:
        raise BadRequest(
            f"no run {inert_line(wanted)} is known here, and none is under way in such a session"
        ) from exc
