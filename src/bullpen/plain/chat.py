"""The line-mode client at work: what happens is printed, what is typed is sent."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import anyio
from anyio.abc import TaskGroup

from bullpen.client.updates import LinkChanged, Update, Updates
from bullpen.client.workspace import Room, attach
from bullpen.errors import AgentNotReady, BullpenError, NotFound
from bullpen.plain.commands import Commands
from bullpen.plain.desk import Desk
from bullpen.plain.terminal import End, Interrupt, Line, Terminal, open_terminal
from bullpen.plain.tool_servers import ToolServers
from bullpen.plain.view import View
from bullpen.present.describe import describe_hooks, describe_skip
from bullpen.present.failure import one_line
from bullpen.present.inert import clock, cut, inert_line
from bullpen.present.sessions import deleted_line, find_session
from bullpen.schema.agent import McpInfo
from bullpen.schema.api import Skip
from bullpen.schema.asks import (
    PermissionNotification,
    PermissionRequest,
    PermissionsSkip,
    QuestionBatch,
    QuestionBatchNotification,
)
from bullpen.schema.choices import SessionChoices
from bullpen.schema.events import (
    AgentEvent,
    Compacted,
    ConfigChanged,
    Event,
    HookDecided,
    McpEvent,
    MessageDelta,
    QueueChanged,
    Resync,
    RunComplete,
    RunWaiting,
)
from bullpen.schema.jobs import CommandOutput, Job, SandboxState
from bullpen.schema.message import Message
from bullpen.schema.session import Session

PROMPT = "› "

WARNINGS = 3
"""How many mistakes in the config are told to somebody who came to talk; 'bullpen config check' tells all."""

TWICE_S = 2.0
"""Two Ctrl-C within this time mean: leave."""

LAST_SENDS_S = 5.0
"""How long leaving waits for prompts that are on their way."""


async def chat(path: str, *, host: str | None, session: str, newest: bool, name: str) -> int:
    """Attach to the workspace at `path` and stay until the person leaves."""
    async with attach(path, host=host, name=name) as room:
        wanted = find_session(room, session) if session else None
        if wanted is None and newest and room.sessions:
            wanted = room.sessions[0]
        updates = room.updates()
        async with open_terminal(PROMPT) as terminal:
            client = Chat(room, terminal)
            await client.begin(wanted)
            await client.run(updates)
    return 0


class Chat:
    """One person at one terminal in one workspace."""

    def __init__(self, room: Room, terminal: Terminal) -> None:
        self._room = room
        self._terminal = terminal
        self._view = View(room, terminal)
        self._desk = Desk(room, self._view)
        self._commands = Commands(room, self._view, self._desk)
        self._servers = ToolServers()
        self._is_free = room.workspace.yolo
        self._interrupted_at = -TWICE_S
        self._sending: list[str] = []
        self._sent = anyio.Event()

    async def begin(self, session: Session | None) -> None:
        """Say where we are, and enter the session that was asked for, if there is one."""
        room = self._room
        self._view.note(
            f"attached to {inert_line(room.workspace.path)} as {inert_line(room.name)}{await self._company()} (/help)"
        )
        if held := room.workspace.untrusted_settings:
            self._view.note(
                f"not trusted, so not in force: {', '.join(map(inert_line, held))} ('bullpen trust' shows it)"
            )
        for warning in room.workspace.warnings[:WARNINGS]:
            self._view.note(f"config: {inert_line(warning)}")
        for info in await self._tool_servers():
            if news := self._servers.news(info):
                self._view.note(news)
        if room.workspace.sandbox.mode != "off":
            self._view.note(sandbox_line(room.workspace.sandbox))
        if self._is_free:
            self._view.note("everything is allowed here (/free off asks again)")
        if session:
            await self._view.enter(session)
        agent = await room.agent()
        if agent.is_ready:
            self._view.note(
                f"model: {inert_line(agent.model_cfg.provider)}/{inert_line(agent.model_cfg.model)}"
            )
        else:
            await self._commands.offer_models("no model is configured yet; choose one by number:")
        self._desk.show()

    async def _company(self) -> str:
        try:
            clients = await self._room.clients()
        except NotFound:
            return ""
        others = [c.name or c.client_id[:8] for c in clients if c.client_id != self._room.client_id]
        return f", with {', '.join(map(inert_line, others))}" if others else ""

    async def _tool_servers(self) -> list[McpInfo]:
        try:
            states = (await self._room.call("GET", "/mcp/states")).read(dict[str, McpInfo])
        except NotFound:
            return []
        return list(states.values())

    async def run(self, updates: Updates) -> None:
        """Print and send until the person leaves. Raises what ended the room for good."""
        failure: BullpenError | None = None
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                nonlocal failure
                try:
                    async for update in updates:
                        await self._take_update(update)
                        if _is_gap(update):
                            tasks.start_soon(self._learn_skip)
                except BullpenError as exc:
                    failure = exc
                    tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            await self._read_lines(tasks)
            await self._finish_sending()
            tasks.cancel_scope.cancel()
        if failure:
            raise failure

    # What happens

    async def _take_update(self, update: Update) -> None:
        if isinstance(update, LinkChanged):
            self._take_link(update)
            return
        match update.payload:
            case Message(session_id=session_id, id=message_id):
                self._view.show(session_id, message_id)
            case MessageDelta(session_id=session_id, message_id=message_id):
                self._view.show(session_id, message_id)
            case CommandOutput() as output:
                self._view.show_output(output, is_first=update.action == "created")
            case Job() as job:
                self._take_job(update, job)
            case Session() as session:
                await self._take_session(update, session)
            case PermissionRequest() | QuestionBatch():
                self._desk.show()
            case PermissionNotification(granted=granted, denied=denied, answered_by=by) if granted or denied:
                self._desk.ended("allowed" if granted else "denied", by)
            case QuestionBatchNotification(answered_by=by):
                self._desk.ended("answered", by)
            case QueueChanged(session_id=session_id, prompts=prompts):
                self._view.learn_authors(prompts)
                if session_id == self._room.current_session and prompts:
                    self._view.note(f"{len(prompts)} waiting (/queue)")
            case RunComplete() as end:
                self._take_end(end)
            case HookDecided(session_id=session_id) as decided if session_id == self._room.current_session:
                self._view.note(cut(describe_hooks(decided), 300))
            case RunWaiting() as waiting:
                self._take_wait(update, waiting)
            case AgentEvent(type="aws_sso_auth", aws_sso_url=url) if url:
                self._view.note(f"AWS asks for a login: open {inert_line(url)}")
            case Compacted(session_id=session_id, reason=reason) if session_id == self._room.current_session:
                why = "" if reason == "asked" else ": its context was full"
                self._view.note(f"the conversation was summarised{why} (/undo summary takes it back)")
            case SessionChoices(session_id=session_id, large=large) if (
                session_id == self._room.current_session
            ):
                chosen = (
                    f"{inert_line(large.provider)}/{inert_line(large.model)}" if large else "the workspace's"
                )
                self._view.note(f"model of this session: {chosen}")
            case SandboxState() as sandbox:
                self._view.note(sandbox_line(sandbox))
            case PermissionsSkip() as changed:
                self._take_skip(changed)
            case ConfigChanged() as changed:
                self._take_config(changed)
            case McpEvent() as told:
                if news := self._servers.news(told):
                    self._view.note(news)
            case Resync():
                self._view.show_all()
                self._desk.show()
            case _:
                pass

    def _take_wait(self, event: Event, waiting: RunWaiting) -> None:
        if waiting.session_id == self._room.current_session and event.action != "deleted":
            reason = cut(inert_line(waiting.reason), 200)
            self._view.note(f"{reason}; asking again at {clock(waiting.until)} (/wake)")

    def _take_job(self, event: Event, job: Job) -> None:
        if job.session_id == self._room.current_session and event.action == "updated" and not job.running:
            what = cut(inert_line(job.description or job.command), 80)
            self._view.note(
                f"background job {inert_line(job.id)} has ended with exit code {job.exit_code}: {what}"
            )

    def _take_config(self, changed: ConfigChanged) -> None:
        """What clients change by a call, they tell themselves; files and trust change behind everybody's back."""
        if changed.reason:
            self._view.note(f"the configuration has changed ({inert_line(changed.reason)})")
        if changed.error:
            self._view.note(f"config: {inert_line(changed.error)}")

    def _take_skip(self, changed: PermissionsSkip) -> None:
        if changed.skip != self._is_free:
            self._is_free = changed.skip
            self._view.note(describe_skip(changed, {self._room.name, self._room.client_id}))

    async def _learn_skip(self) -> None:
        """The event is not told again to those who were away."""
        with suppress(BullpenError):
            answer = await self._room.call("GET", "/permissions/skip")
            self._take_skip(PermissionsSkip(skip=answer.read(Skip).skip))

    def _take_link(self, change: LinkChanged) -> None:
        if change.state == "reconnecting":
            self._view.note(f"link lost ({inert_line(change.reason)}); reconnecting …")
        else:
            # What was missed comes as events, in order.
            self._view.note("reconnected" + (" (the workspace was opened anew)" if change.recreated else ""))

    def _take_end(self, end: RunComplete) -> None:
        if end.session_id == self._room.current_session:
            if end.error and not end.cancelled and not end.message_id:
                self._view.note(f"failed: {inert_line(end.error)}")
            return
        session = self._room.session(end.session_id)
        if session and not session.parent_session_id:
            outcome = "cancelled" if end.cancelled else "failed" if end.error else "done"
            self._view.note(f"“{inert_line(session.title)}” is {outcome} (/sessions, /switch)")

    async def _take_session(self, event: Event, session: Session) -> None:
        if event.action == "created" and not session.parent_session_id and not self._room.current_session:
            # Somebody else began while nobody here had: that is what we came for.
            await self._view.enter(session)
        elif event.action == "deleted" and session.id == self._room.current_session:
            self._view.note(
                f"{deleted_line(self._room, session)} (/trash and /restore have it back); the next prompt starts a new one"
            )
            await self._room.open("")

    # What is typed

    async def _read_lines(self, tasks: TaskGroup) -> None:
        """Do what is typed, until it means to leave."""
        while True:
            match await self._terminal.next():
                case End():
                    return
                case Interrupt(dropped=dropped):
                    if await self._interrupt(dropped=dropped):
                        return
                case Line(text=text):
                    if text.strip() in {"/quit", "/exit", "/q"} and not self._commands.keys.is_asking:
                        return
                    await self._try(partial(self._take_line, text.strip(), tasks))

    async def _interrupt(self, *, dropped: bool) -> bool:
        """Cancel the turn; whether the person wants to leave."""
        now = time.monotonic()
        again, self._interrupted_at = now - self._interrupted_at < TWICE_S, now
        if again or dropped:
            return again
        if self._commands.keys.is_asking:
            self._commands.keys.give_up()
            self._view.note("no key was kept")
            return False
        session = self._room.session(self._room.current_session)
        if session and session.is_busy:
            await self._try(self._commands.cancel)
        else:
            self._view.note("nothing is running; Ctrl-C again or Ctrl-D leaves")
        return False

    async def _take_line(self, text: str, tasks: TaskGroup) -> None:
        if self._commands.keys.is_asking:
            await self._commands.keys.take(text)
            return
        if not text or (not self._desk.is_open and await self._commands.choose_model(text)):
            return
        if text.startswith("/") and not text.startswith("//"):
            if self._commands.takes_long(text):
                tasks.start_soon(self._try, lambda: self._commands.run(text))
            else:
                await self._commands.run(text)
        elif text.startswith("!"):
            tasks.start_soon(self._try, lambda: self._commands.shell(text[1:].strip()))
        elif not await self._desk.answer(text):
            tasks.start_soon(self._send, text.removeprefix("/") if text.startswith("//") else text)

    async def _send(self, text: str) -> None:
        """Send a prompt, for as long as it takes. What is printed of it comes back as an event."""
        self._view.expect(text)
        self._sending.append(text)
        if not self._room.is_connected:
            self._view.note("kept until the link is back")
        attachments = self._commands.attaching.taken()
        try:
            await self._room.prompt(text, attachments=attachments)
        except BullpenError as exc:
            self._commands.attaching.give_back(attachments)
            self._view.expect_no_more(text)
            is_unready = isinstance(exc, AgentNotReady)
            why = "no model is configured: /model lists what can be chosen" if is_unready else one_line(exc)
            self._view.note(f"not sent: {why}")
        self._sending.remove(text)
        self._sent.set()
        self._sent = anyio.Event()

    async def _finish_sending(self) -> None:
        """Let prompts that are on their way arrive; say which do not."""
        with anyio.move_on_after(LAST_SENDS_S):
            while self._sending:
                await self._sent.wait()
        for text in self._sending:
            self._view.note(f"not sent: {inert_line(text)}")

    async def _try(self, action: Callable[[], Awaitable[None]]) -> None:
        """Do it; what the server says against it is printed, and the person stays."""
        try:
            await action()
        except BullpenError as exc:
            self._view.note(one_line(exc))


def _is_gap(update: Update) -> bool:
    """Whether something may have happened before it that was not told."""
    if isinstance(update, LinkChanged):
        return update.state != "reconnecting"
    return isinstance(update.payload, Resync)


def sandbox_line(state: SandboxState) -> str:
    """What holds for the agent's commands."""
    if state.why:
        return f"commands are refused: a sandbox is asked for, and there is none ({inert_line(state.why)})"
    if state.mode == "off":
        return "commands run without a sandbox"
    return f"commands run in a sandbox ({inert_line(state.mode)}, {'with' if state.network else 'without'} network)"
