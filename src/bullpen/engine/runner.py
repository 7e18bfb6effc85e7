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
from collections.abc import Callable
from itertools import takewhile
from typing import NamedTuple, TypeVar

import anyio
from anyio.abc import TaskGroup

from bullpen.config.spans import seconds
from bullpen.engine import endings, queue
from bullpen.engine.active import Active
from bullpen.engine.beginnings import Begun, begin_turn, fail_next
from bullpen.engine.compaction import summarize
from bullpen.engine.history import History
from bullpen.engine.hook_points import TurnHooks
from bullpen.engine.queue import Cancelled
from bullpen.engine.recovery import take_up
from bullpen.engine.services import Agent, Chosen, Services, choose, offered, preferred
from bullpen.engine.title import name_session
from bullpen.engine.turn import TurnRun
from bullpen.errors import (
    BullpenError,
    ProviderError,
    SessionBusy,
    StoreError,
    StoreFull,
    TurnCancelled,
    TurnTooLong,
    WorkspaceClosing,
)
from bullpen.providers.base import UserTurn
from bullpen.schema.session import PLACEHOLDER_TITLES, Session
from bullpen.store import prompts
from bullpen.store.prompts import NewRow, Prompt
from bullpen.store.tx import Tx, Work
from bullpen.system.failpoints import hit

T = TypeVar("T")
log = logging.getLogger("bullpen.engine")

STORE_RETRY_S = 0.5
"""How long a runner waits before it asks a store again that refused to begin or end a turn."""


class _Running(NamedTuple):
    turn: int
    scope: anyio.CancelScope
    runs: list[TurnRun]
    """The turn itself, once it has begun to ask."""


class Runner:
    """The turns of one workspace."""

    def __init__(self, services: Services, tasks: TaskGroup) -> None:
        self._services = services
        self._tasks = tasks
        self._awake: dict[str, bool] = {}
        """Sessions with a runner; True when it has to look for work once more."""
        self._running: dict[str, _Running] = {}
        """Turns from the commit that began them until nothing of them is left."""
        self._outcomes: dict[tuple[str, int], asyncio.Future[None]] = {}
        """Who waits for a summary, by its session and number. Told when it ends, or when nobody is left to make it."""
        self._naming: set[str] = set()
        self._resumed = False
        self._closing = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._sound = asyncio.Event()
        """Cleared while what a failing disk left behind is being closed."""
        self._sound.set()
        services.store.on_rewind[services.workspace] = self._begin_anew
        services.children.on_end = self.wake

    @property
    def is_idle(self) -> bool:
        return not self._awake

    async def accept(self, row: NewRow) -> str:
        """Store the prompt and see to it that it runs; gives back its run id."""
        if self._closing:
            raise WorkspaceClosing
        workspace = self._services.workspace

        def accepted(prompt: prompts.Accepted) -> None:
            self.wake(row.session)
            if row.timing == "now" and prompt.is_new:
                self._steer(row.session)

        prompt = await self._services.store.write(
            lambda tx: prompts.accept(tx, workspace, row), then=accepted
        )
        hit("prompt-accepted")
        return prompt.run_id

    async def summarize(self, session: str) -> None:
        """Make a summary; returns when it is there, or was cancelled. The work does not depend on the
        caller. Raises `SessionBusy`, what the model's side raised, or why it is not made now."""
        if self._closing:
            raise WorkspaceClosing
        if session in self._services.children:
            raise SessionBusy(session)
        workspace = self._services.workspace
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def accepted(seq: int) -> None:
            if not seq:
                outcome.set_result(None)
                return
            self._outcomes[session, seq] = outcome
            self.wake(session)
            if session not in self._awake:
                self._settle_all(session, WorkspaceClosing())

        await self._services.store.write(
            lambda tx: queue.accept_summary(tx, workspace, session), then=accepted
        )
        await asyncio.shield(outcome)

    def _steer(self, session: str) -> None:
        """A prompt that wants to be heard now is there."""
        running = self._running.get(session)
        for run in running.runs if running is not None else ():
            run.steer()
        self._services.children.steer(session)

    async def cancel(self, session: str) -> Cancelled:
        """Stop the session's turn and drop what waits behind it. A sub-agent's session stops alone."""
        workspace = self._services.workspace
        if self._services.children.cancel(session):
            return Cancelled()
        cancelled = await self._services.store.write(
            lambda tx: queue.cancel(tx, workspace, session), reserved=True, then=self._stop
        )
        hit("cancel-done")
        return cancelled

    async def delete_session(self, session: str, by: str = "") -> None:
        """Throw it away. Where there is no room to keep it, it goes for good: that is what makes room."""
        workspace = self._services.workspace

        def over(cancelled: Cancelled) -> None:
            self._stop(cancelled)
            for gone in cancelled.deleted:
                self._services.children.cancel(gone)
                self._services.choices.forget(gone)

        try:
            await self._services.store.write(
                lambda tx: queue.delete_session(tx, workspace, session, by=by), then=over
            )
        except StoreFull:
            await self._services.store.write(
                lambda tx: queue.delete_session(tx, workspace, session, for_good=True, by=by),
                reserved=True,
                then=over,
            )
        hit("session-deleted")

    async def resume(self, is_ready: Callable[[str], bool] = lambda session: True) -> None:
        """Run what was accepted before the workspace was last closed, in sessions that have a model."""
        workspace = self._services.workspace
        if not self._resumed:
            self._resumed = True
            await take_up(self._services.store, workspace)
        for session in await self._services.store.read(lambda tx: prompts.sessions_waiting(tx, workspace)):
            if is_ready(session):
                self.wake(session)

    async def close(self, *, drop_queue: bool) -> None:
        """Take no more prompts, store every active turn as cancelled, and wait until all have stopped.

        What waits is dropped with the workspace's last client, and kept when the server leaves. What cannot be
        stored now is closed when the workspace is next opened.
        """
        self._closing = True
        workspace = self._services.workspace

        async def work(tx: Tx) -> None:
            await _close_active(tx, workspace, endings.CANCELLED)
            if drop_queue:
                for session in await prompts.sessions_waiting(tx, workspace):
                    await queue.cancel(tx, workspace, session)
            await prompts.absolve(tx, workspace)

        try:
            await self._services.store.write(work, reserved=True)
        except StoreError as exc:
            log.error("the turns of a closing workspace could not be stored as cancelled: %s", exc)
        hit("turns-stopped")
        for running in self._running.values():
            running.scope.cancel()
        await self.until_idle()
        self._services.histories.forget(workspace)

    async def until_idle(self) -> None:
        """Until no session has a runner."""
        await self._idle.wait()

    def wake(self, session: str) -> None:
        if self._closing or session in self._services.children:
            return
        if session in self._awake:
            self._awake[session] = True
            return
        self._awake[session] = False
        self._idle.clear()
        self._tasks.start_soon(self._run_session, session)

    def _stop(self, cancelled: Cancelled) -> None:
        """These prompts are over in the store; end them here as well."""
        hit("cancel-stored")
        for session, seq in cancelled.ended:
            running = self._running.get(session)
            if running is not None and running.turn == seq:
                running.scope.cancel()
            else:
                self._settle_outcome(session, seq, None)

    async def _run_session(self, session: str) -> None:
        # At its regular end nobody waits any more.
        left: Exception = WorkspaceClosing()
        try:
            while not self._closing:
                self._awake[session] = False
                if not await self._run_next(session) and not self._awake[session]:
                    break
        except Exception as exc:
            log.exception("the runner of session %s broke; what waits there stays accepted", session)
            left = exc
        finally:
            del self._awake[session]
            self._settle_all(session, left)
            if not self._awake:
                self._idle.set()

    async def _run_next(self, session: str) -> bool:
        """Take the session's next prompt and carry it to its end; False when none waits."""
        await self._sound.wait()
        agent = self._services.agent()
        workspace = self._services.workspace
        chosen: Chosen | None = None
        try:
            own = self._services.choices.of(session)
            chosen = await choose(agent, preferred(own.large, agent.settings.large))
        except Exception as exc:
            error = exc
            begun = await self._insist(lambda tx: fail_next(tx, workspace, session, error), reserved=True)
        else:
            hit("turn-beginning")
            model = chosen
            begun = await self._insist(
                lambda tx: begin_turn(tx, workspace, session, model), durable=False, then=self._register
            )
        if begun is None:
            return False
        if chosen is None or begun.draft is None:
            self._settle_outcome(session, begun.prompt.seq, begun.error)
        else:
            hit("turn-begun")
            await self._carry_out(agent, chosen, begun)
        return True

    def _register(self, begun: Begun | None) -> None:
        """From the commit on a cancel finds the turn."""
        if begun is not None and begun.draft is not None:
            self._running[begun.prompt.session] = _Running(begun.prompt.seq, anyio.CancelScope(), [])

    async def _carry_out(self, agent: Agent, chosen: Chosen, begun: Begun) -> None:
        prompt, session = begun.prompt, begun.session
        assert session is not None
        error: Exception | None = None
        hooks = TurnHooks(self._services.hook_points, agent.hooks, prompt)
        is_over = False
        try:
            with self._running[prompt.session].scope:
                try:
                    if prompt.kind == "summary":
                        await self._summarize(chosen, begun)
                    else:
                        self._name(agent, session, prompt)
                        await self._turn(agent, chosen, begun, hooks)
                    is_over = True
                except TurnCancelled:
                    pass
                except Exception as exc:
                    error = exc
            if error is not None:
                await self._fail(prompt, error)
            if not is_over and prompt.kind == "prompt":
                hooks.broke("failed" if error else "cancelled", str(error or ""))
        finally:
            del self._running[prompt.session]
            self._settle_outcome(prompt.session, prompt.seq, error)

    async def _insist(
        self,
        work: Work[T],
        *,
        durable: bool = True,
        reserved: bool = False,
        then: Callable[[T], None] | None = None,
    ) -> T | None:
        """A write that begins or ends a turn, tried again until the store takes it; None when the workspace
        closes first."""
        while not self._closing:
            try:
                return await self._services.store.write(work, durable=durable, reserved=reserved, then=then)
            except StoreError as exc:
                log.error("a turn has to wait for the store: %s", exc)
                await anyio.sleep(STORE_RETRY_S)
        return None

    async def _turn(self, agent: Agent, chosen: Chosen, begun: Begun, hooks: TurnHooks) -> None:
        prompt, session, draft = begun.prompt, begun.session, begun.draft
        assert session is not None and draft is not None
        await agent.prepare(interactive=prompt.interactive)
        own = self._services.choices.of(prompt.session)
        tools = {n: t for n, t in offered(agent, prompt, own).items() if not t.inner}
        limits = agent.settings.options.turn_limits
        history = await self._history(chosen, begun)
        scene = await self._services.scenes.of(session, agent.work_tree)
        added = await hooks.before(chosen.selected)
        run = TurnRun(
            Active(self._services, agent, prompt, prompt.session),
            chosen,
            system="\n".join(
                filter(None, (await agent.system_prompt(), scene, added, own.instructions or ""))
            ),
            tools=tools,
            history=history,
            draft=draft,
            requests=_requests(history, after_summary=bool(session.summary_message_id)),
            used=session.prompt_tokens + session.completion_tokens,
            most_steps=own.steps or limits.steps,
            hooks=hooks,
        )
        self._running[prompt.session].runs.append(run)
        longest_s = seconds(limits.time)
        try:
            with anyio.fail_after(longest_s or None):
                await run.run()
        except TimeoutError as exc:
            raise TurnTooLong(f"{longest_s:g} s") from exc

    async def _summarize(self, chosen: Chosen, begun: Begun) -> None:
        prompt, session, draft = begun.prompt, begun.session, begun.draft
        assert session is not None and draft is not None
        active = Active(self._services, self._services.agent(), prompt, prompt.session)
        await summarize(active, chosen, await self._history(chosen, begun), draft)

    async def _history(self, chosen: Chosen, begun: Begun) -> History:
        assert begun.session is not None and begun.draft is not None
        images = chosen.model.supports_attachments
        services = self._services
        return await services.histories.before(
            services.store, services.workspace, begun.draft.id, begun.session, images=images
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
        hit("turn-failing")
        if isinstance(error, ProviderError):
            cut = endings.failed(error.title, error.details, code=error.code)
        elif isinstance(error, BullpenError):
            cut = endings.failed("Error", str(error), code=error.code)
        else:
            log.error("turn %d failed unexpectedly", prompt.seq, exc_info=error)
            cut = endings.failed("Internal Error", f"{type(error).__name__}: {error}", code="internal")
        if prompt.kind == "summary":
            cut = cut._replace(title="Summarization Error")
        workspace = self._services.workspace

        async def work(tx: Tx) -> None:
            if await prompts.is_active(tx, workspace, prompt.seq):
                await endings.close_turn(tx, workspace, prompt, cut)

        await self._insist(work, reserved=True)

    def _begin_anew(self) -> None:
        """The disk lost what the turns under way have written: they cannot go on from what they remember."""
        self._sound.clear()
        self._services.histories.forget(self._services.workspace)
        self._tasks.start_soon(self._interrupt)
        for session, running in self._running.items():
            self._settle_outcome(session, running.turn, StoreError(endings.LOST.error))
            running.scope.cancel()

    async def _interrupt(self) -> None:
        """End in the store what was under way. A prompt whose beginning was lost waits again and runs once more."""
        workspace = self._services.workspace
        try:
            await self._insist(lambda tx: _close_active(tx, workspace, endings.LOST), reserved=True)
        finally:
            self._sound.set()

    def _settle_all(self, session: str, error: Exception) -> None:
        """Nobody carries out what waits in the session now."""
        for asked in [key for key in self._outcomes if key[0] == session]:
            self._settle_outcome(*asked, error)

    def _settle_outcome(self, session: str, seq: int, error: BaseException | None) -> None:
        outcome = self._outcomes.pop((session, seq), None)
        if outcome is None or outcome.done():
            return
        if error is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(error)
            outcome.exception()  # Seen: whoever asked may have left.


def _requests(history: History, *, after_summary: bool) -> list[str]:
    """What was asked since the last answer; a summary is no request although it is told as something that was said."""
    asked = list(takewhile(lambda turn: isinstance(turn, UserTurn), reversed(history.turns)))[::-1]
    if after_summary and len(asked) == len(history.turns):
        asked = asked[1:]
    return [turn.text for turn in asked if isinstance(turn, UserTurn)]


async def _close_active(tx: Tx, workspace: str, cut: endings.Cut) -> None:
    for prompt in await prompts.all_active(tx, workspace):
        await endings.close_turn(tx, workspace, prompt, cut)
