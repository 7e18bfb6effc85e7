"""One runner per session, one cancel scope per turn, all in the workspace's task group.

A runner takes the session's next prompt, runs its turn, and goes on until nothing waits. It is started by
whoever accepts a prompt and ends by itself. Nothing about it is state: the prompts table says what waits,
what runs and what has ended, so a runner that dies loses nothing.

A turn can be ended from outside (`cancel`) at any moment. The store is first: one transaction ends the turn
for everybody; then its scope is cancelled, which closes the model's connection and kills its tools. What the
dying turn still tries to write is refused by `guard`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

import anyio
from anyio.abc import TaskGroup

from bullpen.engine import endings, queue
from bullpen.engine.draft import Draft
from bullpen.engine.history import to_turns
from bullpen.engine.queue import Cancelled, insert_user_message
from bullpen.engine.services import Agent, Chosen, Services, choose
from bullpen.engine.summary import summarize
from bullpen.engine.title import name_session
from bullpen.engine.turn import Conversation, TurnRun, fold, open_answer
from bullpen.errors import BullpenError, ProviderError, SessionNotFound, TurnCancelled, WorkspaceClosing
from bullpen.providers.base import Turn
from bullpen.schema.events import RunComplete, agent_error
from bullpen.schema.session import PLACEHOLDER_TITLES, Session
from bullpen.store import log as event_log
from bullpen.store import messages, prompts, sessions
from bullpen.store.prompts import NewRow, Prompt
from bullpen.store.tx import Tx

log = logging.getLogger("bullpen.engine")


class Begun(NamedTuple):
    """A turn whose first rows are stored. `draft` is None when it failed at once."""

    prompt: Prompt
    session: Session | None
    draft: Draft | None


class _Running(NamedTuple):
    turn: int
    scope: anyio.CancelScope


class Runner:
    """The turns of one workspace."""

    def __init__(self, services: Services, tasks: TaskGroup) -> None:
        self._services = services
        self._tasks = tasks
        self._awake: dict[str, bool] = {}
        """Sessions with a runner; True when it has to look for work once more."""
        self._running: dict[str, _Running] = {}
        self._ended: set[int] = set()
        """Turns that were ended before their runner knew it had begun them."""
        self._outcomes: dict[int, asyncio.Future[None]] = {}
        self._naming: set[str] = set()
        self._closing = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_idle(self) -> bool:
        return not self._awake

    async def accept(self, row: NewRow) -> str:
        """Store the prompt and see to it that it runs; gives back its run id."""
        if self._closing:
            raise WorkspaceClosing
        workspace = self._services.workspace
        _, run_id = await self._services.store.write(lambda tx: prompts.accept(tx, workspace, row))
        self.wake(row.session)
        return run_id

    async def summarize(self, session: str) -> None:
        """Make a summary; returns when it is there, or was cancelled. The work does not depend on the
        caller. Raises `SessionBusy`, or what the model's side raised."""
        if self._closing:
            raise WorkspaceClosing
        workspace = self._services.workspace
        seq = await self._services.store.write(lambda tx: queue.accept_summary(tx, workspace, session))
        if not seq:
            return
        outcome = self._outcomes[seq] = asyncio.get_running_loop().create_future()
        self.wake(session)
        await asyncio.shield(outcome)

    async def cancel(self, session: str) -> Cancelled:
        workspace = self._services.workspace
        cancelled = await self._services.store.write(lambda tx: queue.cancel(tx, workspace, session))
        self._stop(session, cancelled.turn)
        return cancelled

    async def delete_session(self, session: str) -> None:
        workspace = self._services.workspace
        cancelled = await self._services.store.write(lambda tx: queue.delete_session(tx, workspace, session))
        self._stop(session, cancelled.turn)

    async def resume(self) -> None:
        """Run what was accepted before the workspace was last closed."""
        workspace = self._services.workspace
        for session in await self._services.store.read(lambda tx: prompts.sessions_waiting(tx, workspace)):
            self.wake(session)

    async def close(self, *, drop_queue: bool) -> None:
        """Take no more prompts, store every active turn as cancelled, and wait until all have stopped.

        What waits is dropped with the workspace's last client, and kept when the server leaves.
        """
        self._closing = True
        workspace = self._services.workspace

        async def work(tx: Tx) -> list[tuple[str, int]]:
            ended = []
            for prompt in await prompts.all_active(tx, workspace):
                await endings.close_turn(tx, workspace, prompt, endings.CANCELLED)
                ended.append((prompt.session, prompt.seq))
            if drop_queue:
                for session in await prompts.sessions_waiting(tx, workspace):
                    await queue.cancel(tx, workspace, session)
            return ended

        for session, turn in await self._services.store.write(work):
            self._stop(session, turn)
        await self.until_idle()

    async def until_idle(self) -> None:
        """Until no session has a runner."""
        await self._idle.wait()

    def wake(self, session: str) -> None:
        if session in self._awake:
            self._awake[session] = True
            return
        self._awake[session] = False
        self._idle.clear()
        self._tasks.start_soon(self._run_session, session)

    def _stop(self, session: str, turn: int) -> None:
        """The turn is over in the store; end it here as well."""
        if not turn:
            return
        running = self._running.get(session)
        if running is not None and running.turn == turn:
            running.scope.cancel()
        else:
            self._ended.add(turn)

    async def _run_session(self, session: str) -> None:
        try:
            while True:
                self._awake[session] = False
                try:
                    begun = await self._begin(session)
                    if begun is not None:
                        await self._run_begun(begun)
                        continue
                except BullpenError as exc:
                    log.error("the turn of session %s could not begin: %s", session, exc)
                if not self._awake[session]:
                    break
        finally:
            del self._awake[session]
            if not self._awake:
                self._idle.set()

    async def _begin(self, session: str) -> Begun | None:
        if self._closing:
            return None
        agent = self._services.agent()
        workspace = self._services.workspace
        try:
            chosen = choose(agent, agent.settings.large)
        except BullpenError as exc:
            why = str(exc)
            return await self._services.store.write(lambda tx: _fail_next(tx, workspace, session, why))
        begun = await self._services.store.write(
            lambda tx: begin_turn(tx, workspace, session, chosen), durable=False
        )
        if begun is not None and begun.prompt.seq in self._ended:
            self._ended.discard(begun.prompt.seq)
            self._settle_outcome(begun.prompt.seq, None)
            return Begun(begun.prompt, None, None)
        return begun

    async def _run_begun(self, begun: Begun) -> None:
        if begun.draft is None or begun.session is None:
            return
        prompt, session = begun.prompt, begun.session
        agent = self._services.agent()
        chosen = choose(agent, agent.settings.large)
        error: Exception | None = None
        with anyio.CancelScope() as scope:
            self._running[prompt.session] = _Running(prompt.seq, scope)
            try:
                if prompt.kind == "summary":
                    await self._summarize(agent, chosen, begun)
                else:
                    self._name(agent, session, prompt)
                    await self._turn(agent, chosen, begun)
            except TurnCancelled:
                pass
            except Exception as exc:
                error = exc
        if error is not None:
            await self._fail(prompt, error)
        self._running.pop(prompt.session, None)
        self._settle_outcome(prompt.seq, error)

    async def _turn(self, agent: Agent, chosen: Chosen, begun: Begun) -> None:
        prompt, session, draft = begun.prompt, begun.session, begun.draft
        assert session is not None and draft is not None
        await agent.prepare(interactive=prompt.interactive)
        tools = {n: t for n, t in agent.tools().items() if prompt.interactive or not t.interactive}
        run = TurnRun(
            self._services,
            chosen,
            Conversation(prompt.session, prompt),
            system=await agent.system_prompt(),
            tools=tools,
            history=await self._history(session, chosen),
            draft=draft,
        )
        await run.run()

    async def _summarize(self, agent: Agent, chosen: Chosen, begun: Begun) -> None:
        prompt, session, draft = begun.prompt, begun.session, begun.draft
        assert session is not None and draft is not None
        todos = "\n".join(f"- [{t.status}] {t.content}" for t in session.todos)
        if todos:
            todos = f"Carry this list of tasks over, with its states:\n{todos}"
        await summarize(self._services, chosen, prompt, await self._history(session, chosen), todos, draft)

    async def _history(self, session: Session, chosen: Chosen) -> list[Turn]:
        workspace = self._services.workspace
        stored = await self._services.store.read(
            lambda tx: messages.of_session(tx, workspace, session.id, from_message=session.summary_message_id)
        )
        return to_turns(
            stored, summary_id=session.summary_message_id, images=chosen.model.supports_attachments
        )

    def _name(self, agent: Agent, session: Session, prompt: Prompt) -> None:
        """Begin to name the session; that outlives the turn, and a cancel."""
        if session.title not in PLACEHOLDER_TITLES or not prompt.text.strip() or session.id in self._naming:
            return
        self._naming.add(session.id)
        self._tasks.start_soon(self._name_session, agent, session.id, prompt.text)

    async def _name_session(self, agent: Agent, session_id: str, text: str) -> None:
        try:
            await name_session(self._services, agent, session_id, text)
        except Exception:
            log.exception("session %s could not be named", session_id)
        finally:
            self._naming.discard(session_id)

    async def _fail(self, prompt: Prompt, error: Exception) -> None:
        """The turn failed by itself: end it, unless somebody else did meanwhile."""
        if isinstance(error, ProviderError):
            cut = endings.failed(error.title, error.details)
        elif isinstance(error, BullpenError):
            cut = endings.failed("Error", str(error))
        else:
            log.error("turn %d failed unexpectedly", prompt.seq, exc_info=error)
            cut = endings.failed("Internal Error", f"{type(error).__name__}: {error}")
        if prompt.kind == "summary":
            cut = cut._replace(title="Summarization Error")
        workspace = self._services.workspace

        async def work(tx: Tx) -> None:
            if await prompts.is_active(tx, workspace, prompt.seq):
                await endings.close_turn(tx, workspace, prompt, cut)

        await self._services.store.write(work)

    def _settle_outcome(self, seq: int, error: BaseException | None) -> None:
        outcome = self._outcomes.pop(seq, None)
        if outcome is None or outcome.done():
            return
        if error is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(error)


async def begin_turn(tx: Tx, workspace: str, session_id: str, chosen: Chosen) -> Begun | None:
    """Give the next waiting prompt its turn: its message, those that join it, and an empty answer."""
    waiting = await prompts.waiting(tx, workspace, session_id)
    if not waiting:
        return None
    prompt = waiting[0]
    if not await sessions.exists(tx, workspace, session_id):
        return await _fail_prompt(tx, workspace, prompt, str(SessionNotFound(session_id)))
    session = await sessions.get(tx, workspace, session_id)
    await prompts.activate(tx, workspace, prompt.seq, prompt.seq)
    if prompt.queued:
        await prompts.queue_changed(tx, workspace, session_id)
    if prompt.kind == "prompt":
        await insert_user_message(tx, workspace, prompt)
        if prompt.folds:
            await fold(tx, workspace, prompt)
    await sessions.announce(tx, workspace, session_id)
    is_summary = prompt.kind == "summary"
    draft = await open_answer(tx, workspace, session_id, prompt.seq, chosen, summary=is_summary)
    return Begun(prompt, session, draft)


async def _fail_next(tx: Tx, workspace: str, session: str, error: str) -> Begun | None:
    waiting = await prompts.waiting(tx, workspace, session)
    return await _fail_prompt(tx, workspace, waiting[0], error) if waiting else None


async def _fail_prompt(tx: Tx, workspace: str, prompt: Prompt, error: str) -> Begun:
    """A prompt that cannot begin ends with an error and leaves no rows."""
    await prompts.end(tx, workspace, prompt.seq, "failed")
    if prompt.kind == "prompt":
        failure = agent_error(prompt.session, prompt.run_id, error)
        await event_log.append(tx, workspace, failure, "created", key=prompt.session)
        done = RunComplete(session_id=prompt.session, run_id=prompt.run_id, message_id="", error=error)
        await event_log.append(tx, workspace, done, "updated", key=str(prompt.seq))
    return Begun(prompt, None, None)
