"""A turn: ask the model, run its calls, append, repeat, until it has nothing more to call.

Each step is one assistant message, open while it grows and while its calls run. A step's end and the next
step's beginning are one transaction, so an active turn always has exactly one open message in its session,
and whatever cuts the turn short finds it.

    asked ──▶ calls ──▶ next step ──▶ asked …            the usual way
      │         └─────▶ finished                         nothing more to call, or a result that stops
      ├─ too long ──▶ summarised ──▶ asked               the open message becomes the summary, a new one is opened
      └─ steered ───▶ broken off ──▶ next step           somebody speaks now: what was said stays, calls are cut
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress

import anyio
import msgspec

from bullpen.asks.permission import Call, Mode
from bullpen.config.agents import SubAgent
from bullpen.engine import endings
from bullpen.engine import prompt as words
from bullpen.engine.active import Active
from bullpen.engine.answer import Answer, answered, stream_answer
from bullpen.engine.beginnings import fold, insert_user_message, open_answer
from bullpen.engine.calls import run_calls
from bullpen.engine.compaction import Compaction, is_full, place_within, tokens_of, write_summary
from bullpen.engine.context import CallContext
from bullpen.engine.draft import Draft
from bullpen.engine.history import History, user_turn
from bullpen.engine.hook_points import AskHooks, TurnHooks
from bullpen.engine.repair import known_name
from bullpen.engine.services import Agent, Chosen, choose, offered
from bullpen.errors import (
    BullpenError,
    ContextFull,
    ProviderError,
    StoreError,
    ToolFailed,
    TurnCancelled,
    TurnStuck,
    TurnTooLong,
)
from bullpen.providers.base import AssistantTurn, ModelRequest, Native, ToolSpec, ToolTurn, Usage, UserTurn
from bullpen.schema.message import FinishReason, Message, ToolCall, ToolResult, new_message, user_parts
from bullpen.store import asks, messages, natives, prompts, sessions, tool_calls
from bullpen.store.changes import NewSet
from bullpen.store.growth import show
from bullpen.store.sessions import Spent
from bullpen.store.tx import Tx
from bullpen.system.failpoints import hit
from bullpen.system.jobs import Owner
from bullpen.tools.base import Outcome, Tool
from bullpen.tools.errands import Errand

LOOK_BACK = 10
SAME_AT_MOST = 5
"""A model that makes the same calls with the same results more often than this in its last steps is stuck."""

HOOK_AUTHOR = "hook"
"""Who speaks when a hook does not let a turn end."""

STEERED = Outcome(
    content="Stopped: somebody said something new, see below. If this had begun, its outcome is unknown.",
    is_error=True,
)


class TurnRun:
    """One turn under way. `run` ends it normally; anything else is the caller's to end."""

    def __init__(
        self,
        active: Active,
        chosen: Chosen,
        *,
        system: str,
        tools: Mapping[str, Tool],
        history: History,
        draft: Draft,
        requests: Sequence[str],
        used: int = 0,
        most_steps: int = 0,
        errand: Errand | None = None,
        hooks: TurnHooks | None = None,
    ) -> None:
        """`used` is how much of the context the conversation took when it was last sent; without `most_steps` the turn may
        have any number. `hooks` are heard when the model is done."""
        self._active = active
        self._services = active.services
        self._chosen = chosen
        self._system = system
        self._tools = tools
        self._specs = tuple(ToolSpec(t.name, t.description, t.schema) for _, t in sorted(tools.items()))
        self._turns = history.turns
        self._settled = history.settled
        self._draft = draft
        self._used = used
        self._most_steps = most_steps
        self._errand = errand
        self._hooks = hooks
        self._steps = 0
        self._may_compact = True
        """False once a summary has freed next to nothing: another would free as little."""
        self._moment = anyio.CancelScope()
        """The step that is under way, as far as somebody who speaks now may break it off."""
        self._results: list[tuple[ToolCall, Outcome]] = []
        self._contexts: dict[str, CallContext] = {}
        """Of the calls that run, by their ids."""
        self._signatures: list[tuple[tuple[str, str, str], ...]] = []
        self._is_steered = False
        self._requests = list(requests)
        """What is being worked on, in the words of who asked."""

    @property
    def session_id(self) -> str:
        return self._active.session_id

    def steer(self) -> None:
        """Somebody wants to be heard now: break the step off, and begin the next with what they said."""
        self._is_steered = True
        self._moment.cancel()

    async def run(self) -> str:
        """To the last answer; gives back its text."""
        if is_full(self._chosen, self._active, self._used):
            await self._compact("full")
        while True:
            last = await self._step()
            if last is not None:
                return last

    async def _step(self) -> str | None:
        """Ask once and run what is called; gives back the last words when that was all."""
        self._count_step()
        self._results = []
        answer: Answer | None = None
        stopped = False
        calls: list[ToolCall] = []
        if not self._is_steered:  # Otherwise somebody spoke while a summary was written, and is heard first.
            try:
                with anyio.CancelScope() as self._moment:
                    answer = await self._answer()
                    calls = [c for c in self._draft.calls.values() if c.finished]
                    stopped = await self._run_calls(calls) if calls else False
            except ProviderError as exc:
                if exc.kind != "overflow":
                    raise
                if not self._may_compact:
                    raise ContextFull from exc
                await self._compact("overflow")
                return None
        is_broken = answer is None or self._moment.cancelled_caught
        if answer is None or is_broken:
            answer = await self._break_off(answer)
        order = list(self._draft.calls)
        self._results.sort(key=lambda result: order.index(result[0].id))
        objection = ""
        if not is_broken:
            if stopped or not calls:
                text = self._draft.text
                reason = "end_turn" if calls or answer.reason == "tool_use" else answer.reason
                if self._hooks is not None:
                    objection = await self._hooks.after(text, is_stopped=stopped)
                if not objection and await self._finish(answer, reason):
                    return text
            else:
                self._watch_for_loops()
        hit("step-ending")
        await self._next_step(answer, objection)
        hit("step-begun")
        if is_full(self._chosen, self._active, self._used):
            await self._compact("full")
        return None

    def _count_step(self) -> None:
        self._steps += 1
        if self._most_steps and self._steps > self._most_steps:
            raise TurnTooLong(f"{self._most_steps} steps")

    async def _answer(self) -> Answer:
        answer = await stream_answer(self._active, self._chosen, self._request, self._draft)
        self._chosen = answer.chosen
        self._book(answer)
        return answer

    def _book(self, answer: Answer) -> None:
        """What was answered is paid for, whatever becomes of the step."""
        self._used = answer.spent.prompt + answer.spent.completion

        async def work(tx: Tx) -> None:
            await self._active.note_spent(
                tx, answer.chosen, answer.usage, purpose="turn", estimated=answer.estimated
            )

        self._active.write_ahead(work)

    def _request(self, chosen: Chosen) -> ModelRequest:
        selected, model = chosen.selected, chosen.model
        chosen_max = selected.max_tokens if isinstance(selected.max_tokens, int) else 0
        return ModelRequest(
            purpose="turn",
            session_id=self._active.session_id,
            model=selected.model,
            system=tuple(s for s in (chosen.prefix, self._system) if s),
            turns=tuple(self._turns),
            settled=self._settled,
            tools=() if model.supports_tools is False else self._specs,
            max_tokens=chosen_max or model.default_max_tokens,
            settings=selected,
            can_reason=model.can_reason,
            for_agent=self._active.is_child,
        )

    # Calls

    async def _run_calls(self, calls: Sequence[ToolCall]) -> bool:
        if any((tool := self._tools.get(call.name)) and tool.effects for call in calls):
            # Whoever looks at the world after a crash must find the calls that may have changed it.
            await self._active.caught_up()
        return await run_calls(
            calls,
            self._tools,
            broken=self._draft.broken,
            hooks=self._active.agent.hooks,
            session_id=self._active.session_id,
            context=self._context,
            report=self._report,
        )

    def _context(self, tool: Tool, call: ToolCall, hook_approved: bool) -> CallContext:
        prompt = self._active.prompt
        mode: Mode = (
            "allow" if prompt.permissions == "allow" else "deny" if prompt.permissions == "deny" else "ask"
        )
        context = CallContext(
            self._services,
            session_id=self._active.session_id,
            call_id=call.id,
            tool_name=tool.name,
            call=Call(prompt.seq, self._draft.id, mode, hook_approved, tool.effects, prompt.author),
            # A sub-agent is gone before its jobs are: they are its parent's.
            owner=Owner(prompt.session, prompt.permissions, prompt.interactive, prompt.author, prompt.client),
            change_set=NewSet(prompt.session, prompt.seq, "call", call.id),
            supports_images=self._chosen.model.supports_attachments,
            delegate=self._delegate,
            errand=self._errand,
            hooks=AskHooks(self._services.hook_points, self._active.agent.hooks),
        )
        self._contexts[call.id] = context
        return context

    async def _report(self, call: ToolCall, outcome: Outcome) -> None:
        """Store a call's result as a message of its own; whoever breaks the step off waits for it."""
        if outcome.is_cut:
            self._services.tally["outputs_cut"] += 1
        message = endings.tool_message(self._active.session_id, _result(call, outcome), self._services.now)
        ran = self._contexts.pop(call.id, None)

        async def work(tx: Tx) -> None:
            await messages.insert(tx, self._active.workspace, message)
            await tool_calls.add(
                tx,
                self._active.workspace,
                message.id,
                known_name(call.name, self._tools),
                failed=outcome.is_error,
                took_s=ran.took_s if ran else None,
            )
            await asks.fulfil(tx, self._draft.id, call.id)

        with anyio.CancelScope(shield=True):
            await self._active.write(work, durable=False)
            self._results.append((call, outcome))
        hit("result-stored")

    def _watch_for_loops(self) -> None:
        self._signatures.append(tuple((c.name, c.input, o.content) for c, o in self._results))
        recent = self._signatures[-LOOK_BACK:]
        if len(recent) == LOOK_BACK and max(recent.count(s) for s in recent) > SAME_AT_MOST:
            raise TurnStuck

    # Ends and beginnings

    async def _finish(self, answer: Answer, reason: FinishReason) -> bool:
        """The end of the turn; False when somebody spoke to a sub-agent that was about to leave."""
        active, draft = self._active, self._draft
        message = draft.finished(self._services.now, reason)
        pieces = self._services.store.growth.take_back(draft.open)

        async def work(tx: Tx) -> bool:
            if active.is_child:
                waiting = await prompts.waiting(tx, active.workspace, active.session_id)
                if waiting and waiting[0].folds:
                    return False
            show(tx, draft.open, pieces)
            await self._keep_native(tx, draft.id, draft.native)
            if active.is_child:
                await endings.finish_child(tx, active.workspace, message, answer.spent)
            else:
                await endings.finish_turn(tx, active.workspace, active.prompt, message, answer.spent)
            return True

        hit("turn-ending")
        ended = await active.write(work, reserved=True)
        hit("turn-ended")
        return ended

    async def _next_step(self, answer: Answer, objection: str = "") -> None:
        """Finish this step's message, take in what was queued to join, and open the next message. An `objection` of a hook is
        said before all that."""
        active = self._active
        step, native = self._draft.open, self._draft.native
        finished = self._draft.finished(self._services.now, "tool_use" if self._results else "end_turn")
        pieces = self._services.store.growth.take_back(step)
        spoken = AssistantTurn(
            self._draft.text, self._draft.thinking, self._draft.signature, tuple(finished.tool_calls), native
        )
        if spoken.text or spoken.reasoning or spoken.tool_calls:
            self._turns.append(spoken)
        self._turns.extend(ToolTurn(_result(call, outcome)) for call, outcome in self._results)

        async def work(tx: Tx) -> tuple[list[Message], Draft]:
            await sessions.add_usage(tx, active.workspace, active.session_id, answer.spent)
            show(tx, step, pieces)
            await messages.rewrite(tx, active.workspace, finished)
            await self._keep_native(tx, step.id, native)
            said = await self._object(tx, objection) if objection else []
            joined = [*said, *await fold(tx, active.workspace, active.prompt.seq, active.session_id)]
            draft = await open_answer(
                tx, active.workspace, active.session_id, active.prompt.seq, self._chosen
            )
            return joined, draft

        self._is_steered = False
        joined, self._draft = await active.write(work, durable=False)
        self._requests += [message.text for message in joined if message.author != HOOK_AUTHOR]
        images = self._chosen.model.supports_attachments
        self._turns.extend(user_turn(message, images=images) for message in joined)

    async def _object(self, tx: Tx, objection: str) -> list[Message]:
        """What a hook has to say, as something that was said in the room."""
        session = self._active.session_id
        message = new_message("user", session, user_parts(objection, ()), tx.now, author=HOOK_AUTHOR)
        await messages.insert(tx, self._active.workspace, message)
        return [message]

    async def _break_off(self, answer: Answer | None) -> Answer:
        """Somebody speaks now. What the model said stays, calls without a result get one, and their asks die."""
        self._draft.break_off_calls()
        done = {call.id for call, _ in self._results}
        active = self._active
        only = active.session_id if active.is_child else ""
        await active.write(
            lambda tx: asks.close_turn(tx, active.workspace, active.prompt.seq, session=only), durable=False
        )
        for call in self._draft.calls.values():
            if call.id not in done:
                await self._report(call, STEERED)
        if answer is not None:
            return answer
        if self._draft.is_empty:  # Nothing came of the request, and perhaps it was never made.
            return Answer("tool_use", Usage(), Spent(), self._chosen, estimated=False)
        cut = answered(self._chosen, self._request(self._chosen), self._draft, "tool_use", usage=None)
        self._book(cut)
        return cut

    async def _keep_native(self, tx: Tx, message_id: str, native: Native | None) -> None:
        if native is not None:
            where = (self._active.workspace, self._active.session_id)
            await natives.keep(tx, *where, message_id, native.form, native.content)

    # The context

    async def _compact(self, why: Compaction) -> None:
        """Put a summary in the place of all that was said. The open message, empty as it is, becomes the summary."""
        if not self._may_compact:
            return
        before = self._used or tokens_of(self._system, self._turns)
        summary = await write_summary(
            self._active, self._chosen, self._turns, self._settled, self._draft, requests=self._requests
        )
        text, self._draft = await place_within(self._active, summary, self._draft, why=why, before=before)
        self._turns, self._settled = [UserTurn(text)], None
        self._used = tokens_of(self._system, self._turns)
        self._may_compact = self._used < before / 2 and not is_full(self._chosen, self._active, self._used)

    # Sub-agents

    async def _delegate(self, call_id: str, prompt: str, agent_name: str, errand: Errand | None) -> str:
        """Send a sub-agent: a session of its own below this one, within the same turn."""
        active = self._active
        if active.is_child:
            raise ToolFailed("A sub-agent cannot send another one.")
        definition = active.agent.sub_agent(agent_name) if errand is None else _on(errand, active.agent)
        chosen = self._chosen
        if definition.model is not None:
            try:
                chosen = await choose(active.agent, definition.model)
            except BullpenError as exc:
                raise ToolFailed(f"The sub-agent {definition.name!r} cannot be sent: {exc}") from exc
        own = self._services.choices.of(active.prompt.session)
        child = f"{self._draft.id}$${call_id}"
        said = msgspec.structs.replace(active.prompt, session=child, text=prompt, attachments=())

        async def begin(tx: Tx) -> Draft:
            await sessions.create(tx, active.workspace, child, definition.title, parent=active.session_id)
            await insert_user_message(tx, active.workspace, said)
            return await open_answer(tx, active.workspace, child, active.prompt.seq, chosen)

        draft = await active.write(begin, durable=False)
        run = TurnRun(
            Active(
                self._services,
                active.agent,
                active.prompt,
                child,
                tool=definition.name or "agent",
                allowance=definition.budget,
            ),
            chosen,
            system=await active.agent.task_prompt(definition)
            if errand is None
            else words.task(errand.directory, definition.prompt),
            tools={
                n: t for n, t in offered(active.agent, active.prompt, own).items() if _may_use(definition, t)
            },
            history=History([UserTurn(prompt)]),
            draft=draft,
            requests=[prompt],
            most_steps=definition.steps,
            errand=errand,
        )
        return await self._carry_child(child, run)

    async def _carry_child(self, child: str, run: TurnRun) -> str:
        """Whatever becomes of the sub-agent is told to the model, and its session is closed."""
        error: Exception | None = None
        text = ""
        try:
            with self._services.children.running(child, run) as scope:
                text = await run.run()
            if scope.cancelled_caught:
                error = ToolFailed("it was cancelled by a person")
        except TurnCancelled:
            raise
        except Exception as exc:
            error = exc
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(TurnCancelled, StoreError):
                await self._end_child(run, endings.CANCELLED)
            raise
        if isinstance(error, ToolFailed):
            await self._end_child(run, endings.CANCELLED)
        elif error is not None:
            await self._end_child(run, endings.failed("Sub-agent failed", str(error) or type(error).__name__))
        if error is not None:
            raise ToolFailed(f"The sub-agent failed: {error}") from error
        if not text.strip():
            raise ToolFailed("The sub-agent ended without saying anything.")
        return text

    async def _end_child(self, child: TurnRun, cut: endings.Cut) -> None:
        """A sub-agent that was cut short left its answer open."""
        workspace, turn = self._active.workspace, self._active.prompt.seq
        await self._active.write(
            lambda tx: endings.close_child(tx, workspace, turn, child.session_id, cut), durable=False
        )


SENDERS = frozenset({"agent", "agentic_fetch"})
"""Tools that send others."""


def _on(errand: Errand, agent: Agent) -> SubAgent:
    """Who goes, with the model of its role; without one with that of who sends it."""
    model = agent.settings.small if errand.agent.role == "small" else None
    return msgspec.structs.replace(errand.agent, model=model)


def _may_use(agent: SubAgent, tool: Tool) -> bool:
    """What a definition names, or else what only reads; never what sends others."""
    if tool.name in SENDERS:
        return False
    return tool.task if agent.tools is None else tool.name in agent.tools


def _result(call: ToolCall, outcome: Outcome) -> ToolResult:
    return ToolResult(
        tool_call_id=call.id,
        name=call.name,
        content=outcome.content,
        data=base64.b64encode(outcome.data).decode() if outcome.data else "",
        mime_type=outcome.mime_type,
        metadata=msgspec.json.encode(outcome.metadata).decode() if outcome.metadata else "",
        is_error=outcome.is_error,
    )
